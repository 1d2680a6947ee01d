package simulator

import (
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// furnish builds the fixture: one app, one account, one connected number, three people
// who wrote a moment ago, and approved templates.
func (w *world) furnish(config Config, now time.Time) {
	w.apps[config.AppID] = &app{
		ID: config.AppID, Name: "Parley", Secret: config.AppSecret, VerifyToken: config.VerifyToken, CallbackURL: config.CallbackURL,
		Version: "v24.0",
	}
	w.tokens[config.Token] = &token{Value: config.Token, App: config.AppID, Scopes: scopes(), Issued: now}
	owner := w.addAccount(&account{ID: DefaultAccountID, Name: "Parley Demo", Business: DefaultBusinessID})
	owner.subscribed[config.AppID] = override{}
	n := &number{
		ID: DefaultPhoneNumberID, Account: owner, Display: "+1 555-019-9001", Name: "Parley Demo", Status: statusConnected, Verified: true,
		onboarded: now,
	}
	_ = w.addNumber(n) // a number of our own
	for _, who := range []person{
		{Phone: "15550100001", Name: "Ada Lovelace"},
		{Phone: "15550100002", Name: "Grace Hopper", Username: "grace.hopper"},
		{Phone: "15550100003", Name: "Linus Pauling", Username: "linus_p", HidePhone: true},
	} {
		w.people.keep(&who)
		w.windows.open(pair{n.ID, who.Phone}, now)
	}
	for _, t := range fixtureTemplates() {
		t.account, t.created, t.Status, t.Quality = owner, now, statusApproved, "GREEN"
		if t.Format == "" {
			t.Format = "POSITIONAL"
		}
		if err := t.check(); err != nil {
			panic(fmt.Sprintf("the fixture's template %s is not valid: %v", t.Name, err))
		}
		t.ID = w.id(templateSeries)
		w.addTemplate(t)
	}
}

func fixtureTemplates() []*template {
	body := func(text string, examples ...any) object {
		of := object{"type": "BODY", "text": text}
		if len(examples) > 0 {
			of["example"] = object{"body_text": []any{examples}}
		}
		return of
	}
	buttons := func(list ...any) object { return object{"type": "BUTTONS", "buttons": list} }
	quick := func(text string) object { return object{"type": "QUICK_REPLY", "text": text} }
	return []*template{
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
		{Name: "spring_sale", Language: "en_US", Category: categoryMarketing, Components: []any{
			object{"type": "HEADER", "format": "IMAGE", "example": object{"header_handle": []any{"4::aWfixture"}}},
			body("Spring is here, {{1}}: everything is half price until Sunday.", "Ada"),
			object{"type": "FOOTER", "text": "Reply STOP to hear no more"},
			buttons(quick("Stop promotions")),
		}},
		{Name: "login_code", Language: "en_US", Category: categoryAuthentication, Components: []any{
			object{"type": "BODY", "add_security_recommendation": true},
			object{"type": "FOOTER", "code_expiration_minutes": 10},
			buttons(object{"type": "OTP", "otp_type": "COPY_CODE", "text": "Copy code"}),
		}},
	}
}

// addAccount takes in a business account and fills in what it does not say.
func (w *world) addAccount(added *account) *account {
	if added.ID == "" {
		added.ID = w.id(accountSeries)
	}
	if added.Business == "" {
		added.Business = w.id(businessSeries)
	}
	if added.Currency == "" {
		added.Currency = "USD"
	}
	if added.subscribed == nil {
		added.subscribed = map[string]override{}
	}
	w.accounts[added.ID] = added
	return added
}

// addNumber takes in a number and fills in what it does not say.
func (w *world) addNumber(added *number) error {
	if added.ID == "" {
		added.ID = w.id(numberSeries)
	}
	if added.Display == "" {
		added.Display = fmt.Sprintf("+1 555-019-%04d", 9000+w.ids%1000)
	}
	digits, ok := wire.Digits(added.Display)
	if !ok {
		return wire.Refusal(100, "%q is no phone number", added.Display)
	}
	added.Digits = digits
	for field, usual := range map[*string]string{
		&added.Status: statusConnected, &added.Quality: "GREEN", &added.Throughput: "STANDARD", &added.NameStatus: statusApproved,
		&added.Tier: "TIER_250", &added.Mode: "LIVE", &added.Name: added.Account.Name,
	} {
		if *field == "" {
			*field = usual
		}
	}
	added.synced, added.override = map[string]bool{}, map[string]override{}
	w.numbers[added.ID] = added
	return nil
}
