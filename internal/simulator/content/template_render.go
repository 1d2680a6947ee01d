package content

import (
	"fmt"
	"strconv"
	"strings"
)

// Render returns a template for the phone page, with its variables replaced.
func (s Shape) Render(components []any) map[string]any {
	body, header, given, file := s.BodyText, s.HeaderText, map[string]object{}, any(nil)
	cards := []object{}
	for _, component := range components {
		c, _ := component.(object)
		parameters := parametersOf(c)
		switch kind, _ := c["type"].(string); strings.ToLower(kind) {
		case "body":
			body = fill(body, s.bodyVars, parameters)
		case "header":
			header = fill(header, s.headerVars, parameters)
			if s.header != "TEXT" && len(parameters) == 1 {
				file = parameters[0][strings.ToLower(s.header)]
			}
		case "button":
			if len(parameters) == 1 {
				given[fmt.Sprint(c["index"])] = parameters[0]
			}
		case "carousel":
			cards = s.renderCards(c)
		}
	}
	buttons := make([]object, 0, len(s.Buttons))
	for i, b := range s.Buttons {
		buttons = append(buttons, b.render(given[strconv.Itoa(i)]))
	}
	return object{
		"header": header, "format": s.header, "file": file, "body": body, "footer": s.FooterText,
		"buttons": buttons, "cards": cards,
	}
}

// renderCards returns the cards of a carousel, each like a template.
func (s Shape) renderCards(carousel object) []object {
	given, _ := carousel["cards"].([]any)
	cards := make([]object, 0, len(given))
	for i, card := range given {
		of, _ := card.(object)
		components, _ := of["components"].([]any)
		if i < len(s.cards) {
			cards = append(cards, s.cards[i].Render(components))
		}
	}
	return cards
}

// render returns a button with the parameter of a send, which may be nil.
func (b Button) render(parameter object) object {
	payload, _ := parameter["payload"].(string)
	if payload == "" {
		payload = b.Text
	}
	rendered := object{"type": b.Kind, "text": b.Text, "payload": payload}
	text, _ := parameter["text"].(string)
	switch b.Kind {
	case "URL":
		rendered["url"] = variablePattern.ReplaceAllLiteralString(b.URL, text)
	case "PHONE_NUMBER":
		rendered["phone"] = b.Phone
	case "OTP":
		rendered["code"] = text
	case "COPY_CODE":
		rendered["code"] = parameter["coupon_code"]
	case "FLOW":
		action, _ := parameter["action"].(object)
		rendered["flow_token"] = action["flow_token"]
	}
	return rendered
}

// fill replaces the variables of a text, once: a value that looks like a variable stays as it is.
func fill(text string, variables []string, parameters []object) string {
	values := map[string]string{}
	for i, p := range parameters {
		name, named := p["parameter_name"].(string)
		if !named && i < len(variables) {
			name = variables[i]
		}
		values[name], _ = parameterText(p)
	}
	return variablePattern.ReplaceAllStringFunc(text, func(variable string) string {
		if value, given := values[variablePattern.FindStringSubmatch(variable)[1]]; given {
			return value
		}
		return variable
	})
}
