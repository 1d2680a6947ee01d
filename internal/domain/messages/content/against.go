package content

import (
	"slices"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/fault"
)

// Against checks the parameters of a template message against its template, and returns the content
// with the rendered text as its body, or all faults. Other content is returned as it is. A difference
// that the provider might accept is no fault.
func (c Content) Against(t TemplateDefinition) (Content, []*fault.Error) {
	if !c.NeedsTemplate() {
		return c, nil
	}
	// The object may come from a stored row, so it is checked again.
	message, found, err := examine(c.Type, c.Object)
	if err != nil {
		return Content{}, []*fault.Error{err}
	}
	d, known := t.read()
	if known && len(found.found) == 0 {
		found.components(d, message)
	}
	if faults := found.faults(); len(faults) > 0 {
		return Content{}, faults
	}
	if known {
		c.Body, c.Flow = d.render(message), d.flow()
	}
	return c, nil
}

// components checks the components of a message, or of a card.
func (c *checker) components(d definition, holder *node) {
	given := map[string]bool{}
	for _, component := range holder.member("components").items() {
		kind := kindOf(component)
		switch kind {
		case "header":
			c.header(d, component)
		case "body":
			c.values(d, component, d.bodyVariables())
		case "button":
			kind += " " + strconv.Itoa(c.button(d, component))
		case "carousel":
			c.cards(d, component)
		}
		given[kind] = true
	}
	if d.authentication {
		c.code(d, holder)
	}
	c.absent(d, holder, given)
}

// absent finds the components that the template needs and the message lacks.
func (c *checker) absent(d definition, holder *node, given map[string]bool) {
	lacks := func(kind, what string) {
		if !given[kind] {
			c.lacking(holder, below(holder, "components"), "a component of type "+what, d.template)
		}
	}
	if slices.Contains([]string{"IMAGE", "VIDEO", "DOCUMENT", "LOCATION"}, d.header) || len(d.variables(d.headerText)) > 0 {
		lacks("header", "header")
	}
	if len(d.bodyVariables()) > 0 {
		lacks("body", "body")
	}
	for i, b := range d.buttons {
		if b.dynamic {
			lacks("button "+strconv.Itoa(i), "button with the index "+strconv.Itoa(i))
		}
	}
	if d.carousel {
		lacks("carousel", "carousel")
	}
	if d.expires {
		lacks("limited_time_offer", "limited_time_offer")
	}
}

func (c *checker) header(d definition, component *node) {
	switch d.header {
	case "", "TEXT":
		c.values(d, component, d.variables(d.headerText))
	case "IMAGE", "VIDEO", "DOCUMENT", "LOCATION":
		c.single(component, strings.ToLower(d.header), "the header of the template")
	}
}

// single requires exactly one parameter, of one type.
func (c *checker) single(component *node, kind, whose string) {
	parameters := component.member("parameters")
	switch {
	case parameters == nil:
		c.missing(component, "parameters", "It carries the %s for %s.", kind, whose)
	case len(parameters.children) != 1:
		c.invalid(parameters, "must have 1 item, the %s for %s; got %d", kind, whose, len(parameters.children))
	case kindOf(parameters.children[0]) != kind:
		c.invalid(parameters.children[0].member("type"), "must be %s for %s; got %s",
			kind, whose, quoted(parameters.children[0].string("type")))
	}
}

// values checks the parameters of a text with variables.
func (c *checker) values(d definition, component *node, variables []string) {
	parameters := component.member("parameters")
	if parameters == nil {
		if len(variables) > 0 {
			c.missing(component, "parameters", "The template %s has the variables %s.", quoted(d.template), braced(variables))
		}
		return
	}
	if d.named {
		c.byName(d, parameters, variables)
	} else if got := len(parameters.children); got != len(variables) {
		c.invalid(parameters, "must have %d items, as the template %s has %d variables there; got %d",
			len(variables), quoted(d.template), len(variables), got)
	}
	for _, parameter := range parameters.children {
		if kind := kindOf(parameter); kind != "text" && kind != "currency" && kind != "date_time" {
			c.invalid(parameter.member("type"), "must be text, currency or date_time here; got %s", quoted(parameter.string("type")))
		}
	}
}

// byName checks the parameters of a template that names its variables. A variable without a value is
// reported only when all given names are right, because a wrong name is most likely the missing one.
func (c *checker) byName(d definition, parameters *node, variables []string) {
	seen := map[string]bool{}
	for _, parameter := range parameters.children {
		name := parameter.member("parameter_name")
		switch {
		case name == nil:
			c.missing(parameter, "parameter_name", "The template %s names its variables: %s.", quoted(d.template), braced(variables))
		case !slices.Contains(variables, name.text):
			c.invalid(name, "must be a variable of the template %s (%s); got %s", quoted(d.template), braced(variables), quoted(name.text))
		case seen[name.text]:
			c.invalid(name, "is given more than once: %s", quoted(name.text))
		default:
			seen[name.text] = true
		}
	}
	for _, variable := range variables {
		if !seen[variable] && len(seen) == len(parameters.children) {
			c.lacking(parameters, parameters.param(), "a parameter with the name "+quoted(variable), d.template)
		}
	}
}

func braced(variables []string) string {
	if len(variables) == 0 {
		return "none"
	}
	return "{{" + strings.Join(variables, "}}, {{") + "}}"
}

// button checks a component for a button, and returns the index that it names.
func (c *checker) button(d definition, component *node) int {
	at := component.member("index")
	index, _ := indexOf(at)
	if index >= len(d.buttons) {
		c.invalid(at, "must be the place of a button: the template %s has %d buttons, counted from 0; got %s",
			quoted(d.template), len(d.buttons), quoted(at.text))
		return index
	}
	b, kind := d.buttons[index], component.member("sub_type")
	if wanted := b.subTypes(); wanted != nil && !slices.Contains(wanted, strings.ToLower(kind.text)) {
		c.invalid(kind, "must be %s, the kind of the button at this index; got %s", wanted[0], quoted(kind.text))
		return index
	}
	switch {
	case b.dynamic:
		c.single(component, "text", "the button")
	case b.kind == "COPY_CODE" && !b.code:
		c.single(component, "coupon_code", "the button")
	}
	return index
}

// subTypes are the accepted kinds of a component for the button; nil for any.
func (b button) subTypes() []string {
	switch {
	case b.code:
		return []string{"url", "copy_code", "otp"}
	case b.kind == "URL", b.kind == "QUICK_REPLY", b.kind == "COPY_CODE", b.kind == "FLOW":
		return []string{strings.ToLower(b.kind)}
	default:
		return nil
	}
}

func (c *checker) cards(d definition, component *node) {
	cards := component.member("cards")
	if len(cards.children) != len(d.cards) {
		c.invalid(cards, "must have %d items, one for each card of the template %s; got %d",
			len(d.cards), quoted(d.template), len(cards.children))
		return
	}
	for i, card := range cards.children {
		if given, ok := indexOf(card.member("card_index")); ok {
			i = given
		}
		if i >= len(d.cards) {
			c.invalid(card.member("card_index"), "must be less than %d, the number of cards; got %d", len(d.cards), i)
			continue
		}
		c.components(d.cards[i], card)
	}
}

// longestCode is the number of characters of a one-time password.
const longestCode = 15

// code checks that the code is short enough, and that the button has the same one as the body.
func (c *checker) code(d definition, holder *node) {
	var code *node
	for _, component := range holder.member("components").items() {
		if kindOf(component) == "body" && code == nil {
			code = firstText(component)
		}
	}
	if code == nil {
		return
	}
	text(1, longestCode)(c, code)
	for _, component := range holder.member("components").items() {
		index, ok := indexOf(component.member("index"))
		if kindOf(component) != "button" || !ok || index >= len(d.buttons) || !d.buttons[index].code {
			continue
		}
		if button := firstText(component); button != nil && button.text != code.text {
			c.invalid(button, "must be the same code as `%s`", code.param())
		}
	}
}

// firstText is the text of the first parameter, or nil.
func firstText(component *node) *node {
	for _, parameter := range component.member("parameters").items() {
		return parameter.member("text")
	}
	return nil
}
