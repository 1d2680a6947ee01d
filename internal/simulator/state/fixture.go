package state

import (
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// addFixture adds what exists after a reset: one app, one account, one connected number,
// three users with an open 24-hour window, and approved templates.
func (d *Data) addFixture(config Config, now time.Time) {
	d.Apps[config.AppID] = &App{
		ID: config.AppID, Name: "Parley", Secret: config.AppSecret, VerifyToken: config.VerifyToken, CallbackURL: config.CallbackURL,
		Version: "v24.0",
	}
	d.Tokens[config.Token] = &Token{Value: config.Token, App: config.AppID, Scopes: Scopes(), Issued: now}
	owner := d.AddAccount(&Account{ID: DefaultAccountID, Name: "Parley Demo", Business: DefaultBusinessID})
	owner.Subscribed[config.AppID] = Override{}
	n := &Number{
		ID: DefaultPhoneNumberID, Account: owner, Display: "+1 555-019-9001", Name: "Parley Demo", Status: wire.StatusConnected, Verified: true,
		Onboarded: now,
	}
	_ = d.AddNumber(n) // cannot fail: the number is valid
	for _, user := range []User{
		{Phone: "15550100001", Name: "Ada Lovelace"},
		{Phone: "15550100002", Name: "Grace Hopper", Username: "grace.hopper"},
		{Phone: "15550100003", Name: "Linus Pauling", Username: "linus_p", HidePhone: true},
	} {
		d.Users.Save(&user)
		d.Windows.Open(Pair{n.ID, user.Phone}, now)
	}
	for _, t := range fixtureTemplates() {
		t.Account, t.Created, t.Status, t.Quality = owner, now, wire.StatusApproved, "GREEN"
		if t.Format == "" {
			t.Format = "POSITIONAL"
		}
		if err := t.Check(); err != nil {
			panic(fmt.Sprintf("the fixture's template %s is not valid: %v", t.Name, err))
		}
		t.ID = d.NextID(TemplateSeries)
		d.AddTemplate(t)
	}
}

func fixtureTemplates() []*Template {
	body := func(text string, examples ...any) object {
		of := object{"type": "BODY", "text": text}
		if len(examples) > 0 {
			of["example"] = object{"body_text": []any{examples}}
		}
		return of
	}
	buttons := func(list ...any) object { return object{"type": "BUTTONS", "buttons": list} }
	quick := func(text string) object { return object{"type": "QUICK_REPLY", "text": text} }
	return []*Template{
		{Name: "hello_world", Language: "en_US", Category: "UTILITY", Components: []any{
			object{"type": "HEADER", "format": "TEXT", "text": "Hello World"},
			body("Welcome and congratulations!! This message demonstrates your ability to send a message notification."),
			object{"type": "FOOTER", "text": "Parley sample message"},
		}},
		{Name: "order_update", Language: "en_US", Category: "UTILITY", Components: []any{
			body("Hi {{1}}, your order {{2}} is on its way.", "Ada", "A-1042"),
			buttons(quick("Thanks"), object{"type": "URL", "text": "Track", "url": "https://example.com/track/{{1}}", "example": []any{"A-1042"}}),
		}},
		{Name: "order_update", Language: "pt_BR", Category: "UTILITY", Components: []any{
			body("Olá {{1}}, seu pedido {{2}} está a caminho.", "Ada", "A-1042"),
			buttons(quick("Obrigado"), object{
				"type": "URL", "text": "Rastrear", "url": "https://example.com/track/{{1}}",
				"example": []any{"A-1042"},
			}),
		}},
		{Name: "appointment_reminder", Language: "en_US", Category: "UTILITY", Format: "NAMED", Components: []any{
			object{
				"type": "BODY", "text": "Hello {{first_name}}, we will see you on {{day}} at our shop.",
				"example": object{"body_text_named_params": []any{
					object{"param_name": "first_name", "example": "Ada"}, object{"param_name": "day", "example": "Monday"},
				}},
			},
			buttons(quick("I will come"), quick("I cannot come")),
		}},
		{Name: "spring_sale", Language: "en_US", Category: wire.CategoryMarketing, Components: []any{
			object{"type": "HEADER", "format": "IMAGE", "example": object{"header_handle": []any{"4::aWfixture"}}},
			body("Spring is here, {{1}}: everything is half price until Sunday.", "Ada"),
			object{"type": "FOOTER", "text": "Reply STOP to hear no more"},
			buttons(quick("Stop promotions")),
		}},
		{Name: "login_code", Language: "en_US", Category: wire.CategoryAuthentication, Components: []any{
			object{"type": "BODY", "add_security_recommendation": true},
			object{"type": "FOOTER", "code_expiration_minutes": 10},
			buttons(object{"type": "OTP", "otp_type": "COPY_CODE", "text": "Copy code"}),
		}},
	}
}
