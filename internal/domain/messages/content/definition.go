package content

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/fault"
)

// TemplateDefinition is a synced template, as far as messages must fit it.
type TemplateDefinition struct {
	Name     string
	Language string
	// Category is MARKETING, UTILITY, AUTHENTICATION, or empty when it is not known.
	Category string
	// ParameterFormat is POSITIONAL, NAMED, or empty when it is not known.
	ParameterFormat string
	// Components is the provider's JSON array of the template's components.
	Components json.RawMessage
}

// IsAuthentication tells whether a template category is that of one-time passwords.
func IsAuthentication(category string) bool { return strings.EqualFold(category, "AUTHENTICATION") }

// UnknownTemplate is the fault of a template that the number does not have.
func UnknownTemplate(name, language string) *fault.Error {
	return fault.New(fault.InvalidTemplateName,
		"This number has no template %s in the language %s. Check both, or sync the templates.", quoted(name), quoted(language),
	).At("template.name")
}

// definition is what a template message must fit; a card of a carousel is one, too.
type definition struct {
	// template is the template's name, for messages.
	template       string
	authentication bool
	// named is true when parameters are matched by name.
	named bool
	// header is the format of the header in upper case, or empty for none.
	header     string
	headerText string
	// hasBody is false for cards without a text.
	hasBody  bool
	bodyText string
	buttons  []button
	cards    []definition
	carousel bool
	// expires is true when the offer's end must be given.
	expires bool
}

type button struct {
	kind string
	// dynamic is true when the button needs a parameter.
	dynamic bool
	// code is true for the buttons of authentication templates, which take the code of the body.
	code bool
}

// componentJSON is what is read of a component of a template.
type componentJSON struct {
	Type    string       `json:"type"`
	Format  string       `json:"format"`
	Text    string       `json:"text"`
	Buttons []buttonJSON `json:"buttons"`
	Cards   []struct {
		Components []componentJSON `json:"components"`
	} `json:"cards"`
	LimitedTimeOffer struct {
		HasExpiration bool `json:"has_expiration"`
	} `json:"limited_time_offer"`
}

type buttonJSON struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// read parses the components. It returns false when they have a form that is not known here.
func (t TemplateDefinition) read() (definition, bool) {
	var components []componentJSON
	if json.Unmarshal(t.Components, &components) != nil || len(components) == 0 {
		return definition{}, false
	}
	d := definition{template: t.Name, authentication: IsAuthentication(t.Category)}
	d.named = strings.EqualFold(t.ParameterFormat, "NAMED") || t.ParameterFormat == "" && hasNames(components)
	return d.with(components), true
}

// with returns a copy of the definition with these components.
func (d definition) with(components []componentJSON) definition {
	general := d
	for _, one := range components {
		switch strings.ToUpper(one.Type) {
		case "HEADER":
			d.header, d.headerText = strings.ToUpper(one.Format), one.Text
		case "BODY":
			d.hasBody, d.bodyText = true, one.Text
		case "BUTTONS":
			for _, b := range one.Buttons {
				d.buttons = append(d.buttons, d.button(b))
			}
		case "CAROUSEL":
			d.carousel = true
			for _, card := range one.Cards {
				d.cards = append(d.cards, general.with(card.Components))
			}
		case "LIMITED_TIME_OFFER":
			d.expires = one.LimitedTimeOffer.HasExpiration
		}
	}
	return d
}

// flow tells whether a button opens a form.
func (d definition) flow() bool {
	return slices.ContainsFunc(d.buttons, func(b button) bool { return b.kind == "FLOW" }) || slices.ContainsFunc(d.cards, definition.flow)
}

func (d definition) button(b buttonJSON) button {
	kind := strings.ToUpper(b.Type)
	// The provider shows the code button of an authentication template as a URL with a variable.
	code := kind == "OTP" || d.authentication && (kind == "URL" || kind == "COPY_CODE")
	return button{kind: kind, code: code, dynamic: kind == "OTP" || kind == "URL" && strings.Contains(b.URL, "{{")}
}

var variable = regexp.MustCompile(`\{\{\s*([A-Za-z0-9_]+)\s*\}\}`)

// hasNames tells whether a text has a variable that is not a number.
func hasNames(components []componentJSON) bool {
	return slices.ContainsFunc(components, func(one componentJSON) bool {
		return slices.ContainsFunc(variable.FindAllStringSubmatch(one.Text, -1), func(match []string) bool { return !digits(match[1]) })
	})
}

func digits(name string) bool { return strings.Trim(name, "0123456789") == "" }

// variables returns the names of the variables of a text, each once, in the order of the text. In
// templates with positions, a name that is not a number is text.
func (d definition) variables(text string) []string {
	var names []string
	for _, match := range variable.FindAllStringSubmatch(text, -1) {
		if name := match[1]; (d.named || digits(name)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// bodyVariables are those of the body. An authentication template takes one code, and the provider
// may leave out its fixed text.
func (d definition) bodyVariables() []string {
	if d.authentication && d.hasBody && d.bodyText == "" {
		return []string{"1"}
	}
	return d.variables(d.bodyText)
}
