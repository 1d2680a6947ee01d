package content

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/parley-chat/parley/internal/fault"
)

// checker collects the faults of content, and which files it uses.
type checker struct {
	found []ranked
	// files collects the objects that name a library file.
	files []*node
	// links is true when the content has a file by its link.
	links bool
}

// ranked is a fault with its place in the order: 0 for missing or 1 for invalid, depth, position.
type ranked struct {
	rank [3]int
	err  *fault.Error
}

func (c *checker) keep(rank [3]int, err *fault.Error) { c.found = append(c.found, ranked{rank, err}) }

// mostFaults is how many faults are returned.
const mostFaults = 20

// faults returns what was found in order: missing fields before invalid ones, missing ones from the top
// of the tree down, then by the order of the body. jsonin orders in the same way.
func (c *checker) faults() []*fault.Error {
	slices.SortStableFunc(c.found, func(a, b ranked) int { return slices.Compare(a.rank[:], b.rank[:]) })
	var faults []*fault.Error
	for _, one := range c.found[:min(len(c.found), mostFaults)] {
		faults = append(faults, one.err)
	}
	return faults
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
