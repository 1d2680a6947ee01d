package content

import (
	"fmt"
	"strconv"
	"strings"
)

// Render returns a template for the phone page, with its variables replaced.
func (s Shape) Render(components []any) map[string]any {
	body, header, given, file := s.BodyText, s.HeaderText, map[string]object{}, any(nil)
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
		}
	}
	buttons := make([]object, 0, len(s.Buttons))
	for i, b := range s.Buttons {
		buttons = append(buttons, b.render(given[strconv.Itoa(i)]))
	}
	return object{
		"header": header, "format": s.header, "file": file, "body": body, "footer": s.FooterText,
		"buttons": buttons,
	}
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

func fill(text string, variables []string, parameters []object) string {
	for i, p := range parameters {
		value, _ := parameterText(p)
		name, named := p["parameter_name"].(string)
		if !named && i < len(variables) {
			name = variables[i]
		}
		text = strings.ReplaceAll(text, "{{"+name+"}}", value)
	}
	return text
}
