package content

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

func checkTemplateName(r *Reader, of object) {
	r.Text(of, "template", "name", 1, 512)
	if language := r.Object(of, "template", "language", true); r.err == nil {
		r.Text(language, "template['language']", "code", 1, 16)
	}
	r.list(of, "template", "components", 0, 20)
}

// Fit refuses the components of a send that do not fit the template.
func (s Shape) Fit(components []any) error {
	given := map[string]bool{}
	for _, component := range components {
		c, _ := component.(object)
		kind, _ := c["type"].(string)
		kind = strings.ToLower(kind)
		parameters := parametersOf(c)
		var err error
		switch kind {
		case "header":
			err = s.fitHeader(parameters)
		case "body":
			err = s.fitTexts("body", s.bodyVars, s.BodyText, parameters)
		case "button":
			err = s.fitButton(c, parameters, given)
		case "carousel":
			err = s.fitCards(c)
		case "limited_time_offer", "tap_target_configuration", "footer":
		default:
			err = wire.Refusal(132012, "component type %q is not known", kind)
		}
		if err != nil {
			return err
		}
		given[kind] = true
	}
	return s.missing(given)
}

// missing refuses a send without a component that has variables.
func (s Shape) missing(given map[string]bool) error {
	if len(s.bodyVars) > 0 && !given["body"] {
		return countMismatch("body", 0, len(s.bodyVars))
	}
	if (len(s.headerVars) > 0 || s.header != "" && s.header != "TEXT" && s.header != "PRODUCT") && !given["header"] {
		return countMismatch("header", 0, 1)
	}
	if len(s.cards) > 0 && !given["carousel"] {
		return countMismatch("carousel", 0, len(s.cards))
	}
	for i, b := range s.Buttons {
		if b.dynamic && !given["button "+strconv.Itoa(i)] {
			return wire.Refusal(131008, "buttons: Button at index %d of type Url requires a parameter", i)
		}
	}
	return nil
}

func parametersOf(component object) []object {
	list, _ := component["parameters"].([]any)
	parameters := make([]object, 0, len(list))
	for _, item := range list {
		p, _ := item.(object)
		parameters = append(parameters, p)
	}
	return parameters
}

func countMismatch(where string, given, wanted int) error {
	return wire.Refusal(132000, "%s: number of localizable_params (%d) does not match the expected number of params (%d)",
		where, given, wanted)
}

func (s Shape) fitHeader(parameters []object) error {
	if s.header == "TEXT" || s.header == "" {
		return s.fitTexts("header", s.headerVars, s.HeaderText, parameters)
	}
	format := strings.ToLower(s.header)
	if len(parameters) != 1 {
		return countMismatch("header", len(parameters), 1)
	}
	kind, _ := parameters[0]["type"].(string)
	file, _ := parameters[0][kind].(object)
	if kind != format || file == nil {
		return wire.Refusal(132012, "header: Format mismatch, expected %s, received %s", s.header, strings.ToUpper(kind))
	}
	return nil
}

// fitTexts compares text parameters with the variables, by position or by name.
func (s Shape) fitTexts(where string, wanted []string, text string, parameters []object) error {
	if len(parameters) != len(wanted) {
		return countMismatch(where, len(parameters), len(wanted))
	}
	length := utf8.RuneCountInString(text)
	for _, p := range parameters {
		value, ok := parameterText(p)
		if !ok {
			return wire.Refusal(132012, "%s: parameter of type %v is not supported here", where, p["type"])
		}
		if name, _ := p["parameter_name"].(string); s.named && !slices.Contains(wanted, name) {
			return wire.Refusal(100, "%s: Parameter name is missing or empty", where)
		}
		if strings.ContainsAny(value, "\n\t") || strings.Contains(value, "    ") || value == "" {
			return wire.Refusal(132018, "%s: Param text cannot be empty, have new-line/tab characters or more than 4 consecutive spaces", where)
		}
		length += utf8.RuneCountInString(value)
	}
	if s.code && length > utf8.RuneCountInString(text)+15 {
		return wire.Refusal(132018, "body: the code has up to 15 characters")
	}
	if length > 4096 {
		return wire.Refusal(132005, "%s: the hydrated text is %d characters long, more than 4096", where, length)
	}
	return nil
}

func parameterText(p object) (string, bool) {
	switch kind, _ := p["type"].(string); kind {
	case "text":
		text, ok := p["text"].(string)
		return text, ok
	case "currency", "date_time":
		of, _ := p[kind].(object)
		text, ok := of["fallback_value"].(string)
		return text, ok
	default:
		return "", false
	}
}

func (s Shape) fitButton(c object, parameters []object, given map[string]bool) error {
	index, err := strconv.Atoi(fmt.Sprint(c["index"]))
	if err != nil || index < 0 || index >= len(s.Buttons) {
		return wire.Refusal(132012, "buttons: there is no button at index %v", c["index"])
	}
	b := s.Buttons[index]
	kind, _ := c["sub_type"].(string)
	same := strings.EqualFold(kind, b.Kind) || b.Kind == "OTP" && strings.EqualFold(kind, "url")
	if !same {
		return wire.Refusal(132012, "buttons: Button at index %d is of type %s, not %s", index, b.Kind, kind)
	}
	if b.dynamic && len(parameters) != 1 {
		return countMismatch("button", len(parameters), 1)
	}
	given["button "+strconv.Itoa(index)] = true
	return nil
}

func (s Shape) fitCards(c object) error {
	cards, _ := c["cards"].([]any)
	if len(cards) != len(s.cards) {
		return countMismatch("carousel", len(cards), len(s.cards))
	}
	for i, card := range cards {
		of, _ := card.(object)
		components, _ := of["components"].([]any)
		if err := s.cards[i].Fit(components); err != nil {
			return err
		}
	}
	return nil
}
