package content

import (
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// check adds the faults of a value to the checker.
type check func(c *checker, n *node)

// unlimited is the upper limit of a count that has none.
const unlimited = math.MaxInt

// fields are the known members of an object; all others are passed on.
type fields map[string]check

// object checks an object: the required members, then the values of all known ones.
func object(required []string, known fields) check {
	return func(c *checker, n *node) {
		if n.kind != jsontext.KindBeginObject {
			c.invalid(n, "must be an object")
			return
		}
		for _, name := range required {
			if n.member(name) == nil {
				c.missing(n, name, "")
			}
		}
		for _, child := range n.children {
			if of := known[child.name]; of != nil {
				of(c, child)
			}
		}
	}
}

func list(lowest, highest int, item check) check {
	return func(c *checker, n *node) {
		if n.kind != jsontext.KindBeginArray {
			c.invalid(n, "must be an array")
			return
		}
		if count := len(n.children); count < lowest || count > highest {
			c.invalid(n, "%s", span(count, lowest, highest, "items"))
		}
		for _, child := range n.children {
			item(c, child)
		}
	}
}

// text checks a string; the limits count Unicode code points.
func text(lowest, highest int) check {
	return func(c *checker, n *node) {
		if n.kind != jsontext.KindString {
			c.invalid(n, "must be a string")
			return
		}
		if length := utf8.RuneCountInString(n.text); length < lowest || length > highest {
			c.invalid(n, "%s", span(length, lowest, highest, "characters"))
		}
	}
}

func oneOf(values ...string) check {
	return func(c *checker, n *node) {
		if n.kind != jsontext.KindString || !slices.Contains(values, n.text) {
			c.invalid(n, "must be one of %s", strings.Join(values, ", "))
		}
	}
}

func boolean(c *checker, n *node) {
	if n.kind != jsontext.KindTrue && n.kind != jsontext.KindFalse {
		c.invalid(n, "must be true or false")
	}
}

// integer checks a whole number. 1.0 is one as well, as in JSON Schema.
func integer(lowest float64) check {
	return func(c *checker, n *node) {
		number, err := strconv.ParseFloat(n.text, 64)
		switch {
		case n.kind != jsontext.KindNumber || err != nil || number != math.Trunc(number):
			c.invalid(n, "must be a whole number")
		case number < lowest:
			c.invalid(n, "must be at least %g; got %s", lowest, n.text)
		}
	}
}

// either checks a value by its JSON type.
func either(names string, forms map[jsontext.Kind]check) check {
	return func(c *checker, n *node) {
		if of := forms[n.kind]; of != nil {
			of(c, n)
			return
		}
		c.invalid(n, "must be %s", names)
	}
}

func anything(*checker, *node) {}

// address checks an absolute URL of at most so many characters.
func address(highest int) check {
	return func(c *checker, n *node) {
		text(0, highest)(c, n)
		if n.kind == jsontext.KindString && !absolute(n.text) {
			c.invalid(n, "must be a valid absolute URL")
		}
	}
}

// absolute accepts what the format `uri` of the schema accepts.
func absolute(link string) bool {
	parsed, err := url.Parse(link)
	if err != nil || !parsed.IsAbs() {
		return false
	}
	host := parsed.Hostname()
	if !strings.Contains(host, ":") {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil && strings.HasPrefix(parsed.Host, "[")
}
