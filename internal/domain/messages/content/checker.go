package content

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/parley-chat/parley/internal/fault"
)

// checker keeps the fault that the caller gets: missing fields before invalid ones, missing ones from
// the top of the tree down, then by the order of the body. jsonin chooses in the same way.
type checker struct {
	err error
	// rank orders the fault that err holds: 0 for missing or 1 for invalid, depth, position.
	rank [3]int
	// files collects the objects that name a library file.
	files []*node
}

// keep replaces the fault if the new one comes first. Of two with the same rank the older stays.
func (c *checker) keep(rank [3]int, err error) {
	before := cmp.Or(cmp.Compare(rank[0], c.rank[0]), cmp.Compare(rank[1], c.rank[1]), cmp.Compare(rank[2], c.rank[2])) < 0
	if c.err == nil || before {
		c.err, c.rank = err, rank
	}
}

// missing says that an object lacks a member. The reason, which may be empty, says why it is needed.
func (c *checker) missing(object *node, name, reason string, args ...any) {
	err := fault.Missing(below(object, name))
	if reason != "" {
		err.Message += " " + fmt.Sprintf(reason, args...)
	}
	c.keep([3]int{0, object.depth, object.position}, err)
}

// lacking says that the list at param, which may itself be missing, lacks what the template needs.
func (c *checker) lacking(at *node, param, what, template string) {
	err := fault.New(fault.MissingRequiredField, "The field `%s` lacks %s, which the template %s needs.", param, what, quoted(template))
	c.keep([3]int{0, at.depth, at.position}, err.At(param))
}

// invalid says what would be accepted instead of the value.
func (c *checker) invalid(n *node, rule string, args ...any) {
	c.keep([3]int{1, 0, n.position}, fault.Invalid(n.param(), fmt.Sprintf(rule, args...)))
}

// span is the rule of a number of characters or items that is too small or too large.
func span(got, lowest, highest int, things string) string {
	verb := "must be"
	if things == "items" {
		verb = "must have"
	}
	switch {
	case lowest == 0:
		return fmt.Sprintf("%s at most %d %s; got %d", verb, highest, things, got)
	case highest == unlimited:
		return "must not be empty"
	default:
		return fmt.Sprintf("%s %d to %d %s; got %d", verb, lowest, highest, things, got)
	}
}

// quoted is a value of the caller for a message, cut to 40 characters.
func quoted(value string) string {
	const longest = 40
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + "…"
	}
	return strconv.Quote(value)
}
