package content

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// render returns the body of the template with its variables replaced.
func (d definition) render(message *node) string {
	values := map[string]string{}
	for _, component := range message.member("components").items() {
		if kindOf(component) != "body" {
			continue
		}
		for i, parameter := range component.member("parameters").items() {
			name := parameter.string("parameter_name")
			if !d.named {
				name = strconv.Itoa(i + 1)
			}
			values[name] = shown(parameter)
		}
	}
	return variable.ReplaceAllStringFunc(d.bodyText, func(written string) string {
		if value, ok := values[variable.FindStringSubmatch(written)[1]]; ok {
			return value
		}
		return written
	})
}

// shown is the text of a value; currencies and times are shown by their fallback.
func shown(parameter *node) string {
	kind := kindOf(parameter)
	if value := parameter.member(kind); value != nil && value.kind == jsontext.KindBeginObject {
		return value.string("fallback_value")
	}
	return parameter.string(kind)
}
