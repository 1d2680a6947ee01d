package content

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// templateRules checks a template message without its template. Components and parameters of types
// that are not known here are passed on, because the provider may know them.
func templateRules(c *checker, n *node) {
	if name := n.member("name"); strings.TrimSpace(name.text) == "" {
		c.invalid(name, "must not be blank: send the name of a template")
	}
	for _, component := range n.member("components").items() {
		componentRules(c, component)
	}
}

// kindOf is the type of a component or parameter. The provider ignores its case.
func kindOf(n *node) string { return strings.ToLower(n.string("type")) }

func componentRules(c *checker, n *node) {
	switch kindOf(n) {
	case "button":
		for _, name := range []string{"sub_type", "index"} {
			if n.member(name) == nil {
				c.missing(n, name, "A component of type button needs it.")
			}
		}
		if index := n.member("index"); index != nil {
			if _, ok := indexOf(index); !ok {
				c.invalid(index, "must be the place of a button, from 0")
			}
		}
	case "carousel":
		if n.member("cards") == nil {
			c.missing(n, "cards", "A component of type carousel needs it.")
		}
	}
	for _, card := range n.member("cards").items() {
		for _, component := range card.member("components").items() {
			componentRules(c, component)
		}
	}
	for _, parameter := range n.member("parameters").items() {
		parameterRules(c, parameter)
	}
}

// indexOf reads a place, which may be a number or a string. A missing one is not ok.
func indexOf(n *node) (index int, ok bool) {
	if n == nil {
		return 0, false
	}
	if n.kind == jsontext.KindString {
		index, err := strconv.Atoi(n.text)
		return index, err == nil && index >= 0
	}
	number, err := strconv.ParseFloat(n.text, 64) // 1.0 is a whole number, too
	index = int(number)
	return index, err == nil && index >= 0 && float64(index) == number
}

// parameterRules checks that a parameter has the member in which its type carries the value.
func parameterRules(c *checker, n *node) {
	kind := kindOf(n)
	value := n.member(kind)
	switch kind {
	case "text", "currency", "date_time", "location", "payload", "coupon_code", "image", "video", "document", "limited_time_offer":
		if value == nil {
			c.missing(n, kind, "The parameter has the type %s.", kind)
			return
		}
	default:
		return
	}
	switch kind {
	case "image", "video", "document":
		source(c, value)
	case "limited_time_offer":
		switch {
		case value.kind != jsontext.KindBeginObject:
			c.invalid(value, "must be an object")
		case value.member("expiration_time_ms") == nil:
			c.missing(value, "expiration_time_ms", "It is when the offer ends, in milliseconds since 1970.")
		}
	}
}
