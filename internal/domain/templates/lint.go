package templates

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/fault"
)

// part is a component of a draft, with what the provider's rules are about. Fields that are not here are passed on.
type part struct {
	Type    string  `json:"type"`
	Format  string  `json:"format"`
	Text    string  `json:"text"`
	Example example `json:"example"`
	Buttons []press `json:"buttons"`
	Cards   []struct {
		Components []part `json:"components"`
	} `json:"cards"`
	CodeExpirationMinutes *float64 `json:"code_expiration_minutes"`
}

type example struct {
	HeaderURL       string     `json:"header_url"`
	HeaderHandle    []string   `json:"header_handle"`
	HeaderText      []string   `json:"header_text"`
	BodyText        [][]string `json:"body_text"`
	HeaderTextNamed []named    `json:"header_text_named_params"`
	BodyTextNamed   []named    `json:"body_text_named_params"`
}

type named struct {
	Name string `json:"param_name"`
}

// The longest texts of a template, in characters.
const (
	longestBody     = 1024
	longestCardBody = 160
	longestHeader   = 60
	longestFooter   = 60
)

// lint checks a draft by the provider's rules, so that a mistake is named with its field and costs no submission. Fields that the
// rules here do not know are left to the provider.
type lint struct {
	category string
	// named is true for variables like {{name}}, false for {{1}}.
	named bool
}

// check returns the first mistake of the components.
func (l lint) check(components json.RawMessage) error {
	var parts []part
	if err := json.Unmarshal(components, &parts); err != nil {
		return fault.Invalid("components", "must be a list of components in the provider's shape")
	}
	if err := l.parts("components", parts, longestBody); err != nil {
		return err
	}
	if !slices.ContainsFunc(parts, func(p part) bool { return p.is(kindBody) }) {
		return fault.Invalid("components", "must contain a component of type BODY")
	}
	if l.category == authentication {
		return l.authentication(parts)
	}
	return nil
}

// The kinds of components.
const (
	kindHeader   = "HEADER"
	kindBody     = "BODY"
	kindFooter   = "FOOTER"
	kindButtons  = "BUTTONS"
	kindCarousel = "CAROUSEL"
	kindOffer    = "LIMITED_TIME_OFFER"
)

// The categories that have rules of their own.
const (
	marketing      = "MARKETING"
	authentication = "AUTHENTICATION"
)

func (p part) is(kind string) bool { return strings.EqualFold(p.Type, kind) }

func (l lint) parts(at string, parts []part, longest int) error {
	seen := map[string]bool{}
	for i, p := range parts {
		at := fmt.Sprintf("%s[%d]", at, i)
		kind := strings.ToUpper(p.Type)
		if seen[kind] {
			return fault.Invalid(at+".type", "must not appear twice: a template has one "+kind)
		}
		seen[kind] = true
		var err error
		switch kind {
		case kindHeader:
			err = l.header(at, p)
		case kindBody:
			err = l.body(at, p, longest)
		case kindFooter:
			err = l.footer(at, p)
		case kindButtons:
			err = l.buttons(at+".buttons", p.Buttons)
		case kindCarousel:
			err = l.carousel(at, p)
		case kindOffer: // its rules are left to the provider
		case "":
			err = fault.Missing(at + ".type")
		default:
			err = fault.Invalid(at+".type", "must be HEADER, BODY, FOOTER, BUTTONS, CAROUSEL or LIMITED_TIME_OFFER")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l lint) header(at string, p part) error {
	switch strings.ToUpper(p.Format) {
	case "":
		return fault.Missing(at + ".format")
	case "TEXT":
		return l.textHeader(at, p)
	case "IMAGE", "VIDEO", "DOCUMENT", "GIF":
		if p.Example.HeaderURL == "" && (len(p.Example.HeaderHandle) != 1 || p.Example.HeaderHandle[0] == "") {
			return fault.New(fault.MissingRequiredField,
				"A header with a file needs an example of it: a public https URL in `%s`.", at+".example.header_url").At(at + ".example.header_url")
		}
		return nil
	case "LOCATION", "PRODUCT":
		return nil
	default:
		return fault.Invalid(at+".format", "must be TEXT, IMAGE, VIDEO, DOCUMENT, GIF, LOCATION or PRODUCT")
	}
}

func (l lint) textHeader(at string, p part) error {
	if err := length(at+".text", p.Text, longestHeader); err != nil {
		return err
	}
	names, err := l.variables(at+".text", p.Text)
	if err != nil || len(names) == 0 {
		return err
	}
	if len(names) > 1 {
		return fault.Invalid(at+".text", "must have at most one variable")
	}
	return l.examples(at+".example", "header_text", names, len(p.Example.HeaderText), p.Example.HeaderTextNamed)
}

func (l lint) body(at string, p part, longest int) error {
	if l.category == authentication {
		if p.Text != "" {
			return fault.Invalid(at+".text", "must be left out: the provider writes the text of an AUTHENTICATION template")
		}
		return nil
	}
	if err := length(at+".text", p.Text, longest); err != nil {
		return err
	}
	names, err := l.variables(at+".text", p.Text)
	if err != nil || len(names) == 0 {
		return err
	}
	trimmed := strings.TrimSpace(p.Text)
	switch {
	case strings.HasPrefix(trimmed, "{{") || strings.HasSuffix(trimmed, "}}"):
		return fault.Invalid(at+".text", "must not begin or end with a variable")
	case adjacent.MatchString(p.Text):
		return fault.Invalid(at+".text", "must have words between two variables")
	}
	given := 0
	if len(p.Example.BodyText) > 0 {
		given = len(p.Example.BodyText[0])
	}
	return l.examples(at+".example", "body_text", names, given, p.Example.BodyTextNamed)
}

func (l lint) footer(at string, p part) error {
	if l.category == authentication {
		if minutes := p.CodeExpirationMinutes; minutes != nil && (*minutes < 1 || *minutes > 90 || *minutes != math.Trunc(*minutes)) {
			return fault.Invalid(at+".code_expiration_minutes", "must be a whole number from 1 to 90")
		}
		return nil
	}
	if err := length(at+".text", p.Text, longestFooter); err != nil {
		return err
	}
	if strings.Contains(p.Text, "{{") {
		return fault.Invalid(at+".text", "must not contain variables")
	}
	return nil
}

func length(at, text string, longest int) error {
	switch count := utf8.RuneCountInString(text); {
	case count == 0:
		return fault.Missing(at)
	case count > longest:
		return fault.Invalid(at, fmt.Sprintf("must be 1 to %d characters; it has %d", longest, count))
	default:
		return nil
	}
}

var (
	snake    = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	adjacent = regexp.MustCompile(`\}\}\s*\{\{`)
)

// variables returns the names of a text in the order of their first appearance.
func (l lint) variables(at, text string) (names []string, err error) {
	for _, match := range variable.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	if strings.Count(text, "{{") != len(variable.FindAllString(text, -1)) {
		return nil, fault.Invalid(at, "has a variable without an end or with other characters: write {{1}} or {{name}}")
	}
	for i, name := range names {
		if l.named && !snake.MatchString(name) {
			return nil, fault.Invalid(at, "must name its variables with small letters, digits and underscores, as parameter_format is NAMED")
		}
		if !l.named && name != strconv.Itoa(i+1) {
			return nil, fault.Invalid(at, "must number its variables one after the other, from {{1}} on")
		}
	}
	return names, nil
}

// examples refuses a text whose variables have no example each.
func (l lint) examples(at, field string, names []string, positional int, given []named) error {
	if !l.named {
		if positional != len(names) {
			return fault.Invalid(at+"."+field, fmt.Sprintf("must have an example for each of the %d variables", len(names)))
		}
		return nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(given, func(n named) bool { return n.Name == name }) {
			return fault.Invalid(at+"."+field+"_named_params", fmt.Sprintf("must have an example for the variable {{%s}}", name))
		}
	}
	return nil
}
