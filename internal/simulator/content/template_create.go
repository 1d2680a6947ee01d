package content

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Shape is what a send of a template must contain.
type Shape struct {
	header     string // format; empty: no header
	headerVars []string
	bodyVars   []string
	BodyText   string
	HeaderText string
	FooterText string
	Buttons    []Button
	cards      []Shape

	named bool
	code  bool // authentication template
}

// Button is one of a template's buttons.
type Button struct {
	Kind    string
	Text    string
	URL     string
	Phone   string
	dynamic bool // needs a parameter
}

var (
	variablePattern = regexp.MustCompile(`\{\{\s*([a-zA-Z0-9_]+)\s*\}\}`)
	namedPattern    = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// Malformed returns the error for a template that is not valid.
func Malformed(subcode int, title, text string) error {
	return wire.Refusal(100, "%s", text).With(subcode).Said(title, text)
}

// Template is a template as it was submitted.
type Template struct {
	Category   string // upper case
	Format     string // POSITIONAL or NAMED
	Components []any
}

const (
	marketing      = "MARKETING"
	authentication = "AUTHENTICATION"
)

// ParseTemplate returns the shape of a template, and refuses what the network refuses at creation.
func ParseTemplate(t Template) (Shape, error) {
	shape, err := t.parse(t.Components, 1024)
	if err != nil {
		return Shape{}, err
	}
	if shape.BodyText == "" {
		return Shape{}, Malformed(2388072, "Body is missing", "A message template needs a body.")
	}
	if count := len(shape.cards); count == 1 || count > 10 || count > 0 && t.Category != marketing {
		return Shape{}, Malformed(2388109, "Carousel is not valid", "A carousel has 2 to 10 cards and is for marketing only.")
	}
	return shape, nil
}

func (t Template) parse(components []any, longestBody int) (shape Shape, err error) {
	shape.named, shape.code = t.Format == "NAMED", t.Category == authentication
	for _, component := range components {
		of, ok := component.(object)
		if !ok {
			return shape, wire.Refusal(100, "A component must be a JSON object.")
		}
		kind, _ := of["type"].(string)
		switch strings.ToUpper(kind) {
		case "HEADER":
			err = t.parseHeader(&shape, of)
		case "BODY":
			err = t.parseBody(&shape, of, longestBody)
		case "FOOTER":
			err = t.parseFooter(&shape, of)
		case "BUTTONS":
			err = parseButtons(&shape, of)
		case "CAROUSEL":
			err = t.parseCards(&shape, of)
		case "LIMITED_TIME_OFFER":
		default:
			err = wire.Refusal(100, "Param components['type'] is not valid: %q.", kind)
		}
		if err != nil {
			return shape, err
		}
	}
	return shape, nil
}

func (t Template) parseHeader(shape *Shape, of object) (err error) {
	format, _ := of["format"].(string)
	shape.header = strings.ToUpper(format)
	example, _ := of["example"].(object)
	switch shape.header {
	case "TEXT":
		shape.HeaderText, _ = of["text"].(string)
		if length := utf8.RuneCountInString(shape.HeaderText); length < 1 || length > 60 {
			return Malformed(2388040, "Character Limit Exceeded", "The header has 1 to 60 characters.")
		}
		if shape.headerVars, err = t.variables(shape.HeaderText); err != nil {
			return err
		}
		if len(shape.headerVars) > 1 || len(shape.headerVars) == 1 && example == nil {
			return Malformed(2388047, "Header is not valid", "A header may have one variable, and needs an example of it.")
		}
	case "IMAGE", "VIDEO", "DOCUMENT", "GIF":
		if handles, _ := example["header_handle"].([]any); len(handles) == 0 {
			return Malformed(2388047, "Header is not valid", "A media header needs an example: a handle of an uploaded file.")
		}
	case "LOCATION", "PRODUCT":
	default:
		return Malformed(2388047, "Header is not valid", "The format of the header is not known.")
	}
	return nil
}

func (t Template) parseBody(shape *Shape, of object, longest int) (err error) {
	if t.Category == authentication {
		shape.BodyText, shape.bodyVars = "*{{1}}* is your verification code.", []string{"1"}
		return nil
	}
	shape.BodyText, _ = of["text"].(string)
	if length := utf8.RuneCountInString(shape.BodyText); length < 1 || length > longest {
		return Malformed(2388040, "Character Limit Exceeded", fmt.Sprintf("The body has 1 to %d characters.", longest))
	}
	if shape.bodyVars, err = t.variables(shape.BodyText); err != nil {
		return err
	}
	trimmed := strings.TrimSpace(shape.BodyText)
	if strings.HasPrefix(trimmed, "{{") || strings.HasSuffix(trimmed, "}}") {
		return Malformed(2388299, "Variables can't be at the start or end", "Variables can't be at the start or end of the template.")
	}
	words := len(strings.Fields(variablePattern.ReplaceAllString(shape.BodyText, " ")))
	if count := len(shape.bodyVars); strings.Contains(shape.BodyText, "}}{{") || count > 0 && words < 2*count-1 {
		return Malformed(2388293, "Too many variables", "This template has too many variables for its length.")
	}
	if len(shape.bodyVars) > 0 && examples(of, t.Format) != len(shape.bodyVars) {
		return Malformed(2388072, "Body is not valid", "Each variable of the body needs an example.")
	}
	return nil
}

func examples(of object, format string) int {
	example, _ := of["example"].(object)
	if format == "NAMED" {
		named, _ := example["body_text_named_params"].([]any)
		return len(named)
	}
	rows, _ := example["body_text"].([]any)
	if len(rows) == 0 {
		return 0
	}
	first, isRow := rows[0].([]any)
	if !isRow {
		return len(rows)
	}
	return len(first)
}

// variables returns the variables of a text in order of first appearance.
func (t Template) variables(text string) ([]string, error) {
	var found []string
	seen := map[string]bool{}
	for _, match := range variablePattern.FindAllStringSubmatch(text, -1) {
		if !seen[match[1]] {
			seen[match[1]] = true
			found = append(found, match[1])
		}
	}
	for i, name := range found {
		if t.Format == "NAMED" {
			if !namedPattern.MatchString(name) {
				return nil, Malformed(2388072, "Variable is not valid", "Named variables are lowercase letters, digits and underscores.")
			}
		} else if name != fmt.Sprint(i+1) {
			return nil, Malformed(2388072, "Variable is not valid", "Variables are numbered one after the other, from {{1}} on.")
		}
	}
	return found, nil
}

func (t Template) parseFooter(shape *Shape, of object) error {
	shape.FooterText, _ = of["text"].(string)
	if t.Category == authentication {
		return nil
	}
	if length := utf8.RuneCountInString(shape.FooterText); length < 1 || length > 60 {
		return Malformed(2388040, "Character Limit Exceeded", "The footer has 1 to 60 characters.")
	}
	if strings.Contains(shape.FooterText, "{{") {
		return Malformed(2388073, "Footer is not valid", "A footer has no variables.")
	}
	return nil
}

func parseButtons(shape *Shape, of object) error {
	buttons, _ := of["buttons"].([]any)
	count := map[string]int{}
	for _, button := range buttons {
		b, _ := button.(object)
		kind, _ := b["type"].(string)
		one := Button{Kind: strings.ToUpper(kind)}
		one.Text, _ = b["text"].(string)
		one.URL, _ = b["url"].(string)
		one.Phone, _ = b["phone_number"].(string)
		one.dynamic = one.Kind == "URL" && strings.Contains(one.URL, "{{") || one.Kind == "OTP"
		if utf8.RuneCountInString(one.Text) > 25 || len(one.URL) > 2000 {
			return Malformed(2388040, "Character Limit Exceeded", "A button's label has up to 25 characters, its URL up to 2000.")
		}
		grouped := len(shape.Buttons) == 0 || shape.Buttons[len(shape.Buttons)-1].Kind == one.Kind
		if one.Kind == "QUICK_REPLY" && count[one.Kind] > 0 && !grouped {
			return Malformed(2388109, "Buttons are not valid", "Quick reply buttons must stand together.")
		}
		count[one.Kind]++
		shape.Buttons = append(shape.Buttons, one)
	}
	if len(buttons) == 0 || len(buttons) > 10 || count["URL"] > 2 || count["PHONE_NUMBER"] > 1 || count["COPY_CODE"] > 1 {
		return Malformed(2388109, "Buttons are not valid", "A template has up to 10 buttons: 2 URLs, 1 phone number, 1 code to copy.")
	}
	return nil
}

func (t Template) parseCards(shape *Shape, of object) error {
	cards, _ := of["cards"].([]any)
	for _, card := range cards {
		c, _ := card.(object)
		components, _ := c["components"].([]any)
		one, err := t.parse(components, 160)
		if err != nil {
			return err
		}
		shape.cards = append(shape.cards, one)
	}
	return nil
}
