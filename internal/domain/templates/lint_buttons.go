package templates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/fault"
)

// press is a button of a draft.
type press struct {
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	URL         string   `json:"url"`
	PhoneNumber string   `json:"phone_number"`
	Example     any      `json:"example"`
	OTPType     string   `json:"otp_type"`
	Accepted    bool     `json:"zero_tap_terms_accepted"`
	Apps        []otpApp `json:"supported_apps"`
	// Package and Hash are the older form of an app.
	Package string `json:"package_name"`
	Hash    string `json:"signature_hash"`
}

type otpApp struct {
	Package string `json:"package_name"`
	Hash    string `json:"signature_hash"`
}

func (b press) is(kind string) bool { return strings.EqualFold(b.Type, kind) }

// The kinds of buttons that have rules here.
const (
	quickReply  = "QUICK_REPLY"
	buttonURL   = "URL"
	buttonPhone = "PHONE_NUMBER"
	buttonCopy  = "COPY_CODE"
	buttonOTP   = "OTP"
)

// otherButtons are the kinds of buttons whose rules are left to the provider.
func otherButtons() []string {
	return []string{"FLOW", "CATALOG", "MPM", "SPM", "VOICE_CALL", "REQUEST_CONTACT_INFO"}
}

// mostButtons are how many buttons of a kind a template has at most.
func mostButtons() map[string]int { return map[string]int{buttonURL: 2, buttonPhone: 1, buttonCopy: 1} }

func (l lint) buttons(at string, all []press) error {
	if len(all) == 0 {
		return fault.Missing(at)
	}
	if len(all) > 10 {
		return fault.Invalid(at, "must have at most 10 buttons")
	}
	count := map[string]int{}
	for i, one := range all {
		at, kind := fmt.Sprintf("%s[%d]", at, i), strings.ToUpper(one.Type)
		if kind == quickReply && count[kind] > 0 && !all[i-1].is(quickReply) {
			return fault.Invalid(at, "must stand beside the other QUICK_REPLY buttons")
		}
		if count[kind]++; mostButtons()[kind] > 0 && count[kind] > mostButtons()[kind] {
			return fault.Invalid(at, fmt.Sprintf("must not be one more %s button: a template has at most %d", kind, mostButtons()[kind]))
		}
		if err := l.button(at, kind, one); err != nil {
			return err
		}
	}
	return nil
}

const longestLabel = 25

func (l lint) button(at, kind string, b press) error {
	if kind == quickReply || kind == buttonURL || kind == buttonPhone {
		if err := length(at+".text", b.Text, longestLabel); err != nil {
			return err
		}
	}
	switch kind {
	case buttonURL:
		return l.link(at, b)
	case buttonPhone:
		return length(at+".phone_number", b.PhoneNumber, 20)
	case buttonCopy:
		if b.Example == nil {
			return fault.Missing(at + ".example")
		}
	case buttonOTP:
		if l.category != authentication {
			return fault.Invalid(at+".type", "must not be OTP: only AUTHENTICATION templates have such a button")
		}
		return b.otp(at)
	case quickReply:
	case "":
		return fault.Missing(at + ".type")
	default:
		if !slices.Contains(otherButtons(), kind) {
			known := append([]string{quickReply, buttonURL, buttonPhone, buttonCopy, buttonOTP}, otherButtons()...)
			return fault.Invalid(at+".type", "must be one of "+strings.Join(known, ", "))
		}
	}
	return nil
}

func (l lint) link(at string, b press) error {
	if err := length(at+".url", b.URL, 2000); err != nil {
		return err
	}
	found := variable.FindAllStringIndex(b.URL, -1)
	switch {
	case len(found) == 0:
		return nil
	case len(found) > 1 || found[0][1] != len(b.URL):
		return fault.Invalid(at+".url", "must have at most one variable, at its end")
	case b.Example == nil:
		return fault.Missing(at + ".example")
	default:
		return nil
	}
}

func (b press) otp(at string) error {
	kind := strings.ToUpper(b.OTPType)
	if kind == "" {
		return fault.Missing(at + ".otp_type")
	}
	if !slices.Contains([]string{"COPY_CODE", "ONE_TAP", "ZERO_TAP"}, kind) {
		return fault.Invalid(at+".otp_type", "must be COPY_CODE, ONE_TAP or ZERO_TAP")
	}
	if kind == "COPY_CODE" {
		return nil
	}
	if len(b.Apps) == 0 && (b.Package == "" || b.Hash == "") {
		return fault.Missing(at + ".supported_apps")
	}
	for i, app := range b.Apps {
		if app.Package == "" || app.Hash == "" {
			return fault.Invalid(fmt.Sprintf("%s.supported_apps[%d]", at, i), "must have package_name and signature_hash")
		}
	}
	if kind == "ZERO_TAP" && !b.Accepted {
		return fault.Invalid(at+".zero_tap_terms_accepted", "must be true for ZERO_TAP: accept the provider's terms")
	}
	return nil
}

// authentication checks that a template for codes has one OTP button and no header.
func (l lint) authentication(parts []part) error {
	for i, p := range parts {
		at := fmt.Sprintf("components[%d]", i)
		if p.is(kindHeader) || p.is(kindCarousel) {
			return fault.Invalid(at+".type", "must be BODY, FOOTER or BUTTONS in an AUTHENTICATION template")
		}
		if p.is(kindButtons) && (len(p.Buttons) != 1 || !p.Buttons[0].is(buttonOTP)) {
			return fault.Invalid(at+".buttons", "must be one OTP button in an AUTHENTICATION template")
		}
	}
	if !slices.ContainsFunc(parts, func(p part) bool { return p.is(kindButtons) }) {
		return fault.Invalid("components", "must contain BUTTONS with one OTP button in an AUTHENTICATION template")
	}
	return nil
}

func (l lint) carousel(at string, p part) error {
	switch {
	case l.category != marketing:
		return fault.Invalid(at+".type", "must not be CAROUSEL: only MARKETING templates have cards")
	case len(p.Cards) < 2 || len(p.Cards) > 10:
		return fault.Invalid(at+".cards", fmt.Sprintf("must be 2 to 10 cards; there are %d", len(p.Cards)))
	}
	first := ""
	for i, card := range p.Cards {
		at := fmt.Sprintf("%s.cards[%d].components", at, i)
		if err := l.card(at, card.Components); err != nil {
			return err
		}
		form := formOf(card.Components)
		if i == 0 {
			first = form
		}
		if form != first {
			return fault.Invalid(at, "must be built like the first card: the same components, header format and buttons")
		}
	}
	return nil
}

func (l lint) card(at string, parts []part) error {
	if err := l.parts(at, parts, longestCardBody); err != nil {
		return err
	}
	var header, buttons bool
	for i, p := range parts {
		at := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case p.is(kindHeader):
			header = strings.EqualFold(p.Format, "IMAGE") || strings.EqualFold(p.Format, "VIDEO")
			if !header {
				return fault.Invalid(at+".format", "must be IMAGE or VIDEO in a card")
			}
		case p.is(kindButtons):
			if buttons = len(p.Buttons) <= 2; !buttons {
				return fault.Invalid(at+".buttons", "must be 1 or 2 buttons in a card")
			}
		case !p.is(kindBody):
			return fault.Invalid(at+".type", "must be HEADER, BODY or BUTTONS in a card")
		}
	}
	if !header || !buttons {
		return fault.Invalid(at, "must contain a HEADER and BUTTONS")
	}
	return nil
}

// formOf is how a card is built.
func formOf(parts []part) string {
	var form []string
	for _, p := range parts {
		form = append(form, strings.ToUpper(p.Type), strings.ToUpper(p.Format))
		for _, b := range p.Buttons {
			form = append(form, strings.ToUpper(b.Type))
		}
	}
	return strings.Join(form, " ")
}
