package content

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/provider"
)

// rules has what the contract's schema cannot say. They run only on objects that fit their shape, so
// that every known member has its type.
var rules = map[string]check{
	provider.TypeText:        anything,
	provider.TypeReaction:    reaction,
	provider.TypeImage:       source,
	provider.TypeDocument:    source,
	provider.TypeVideo:       source,
	provider.TypeAudio:       audio,
	provider.TypeTemplate:    templateRules,
	provider.TypeInteractive: interactive,
}

// source checks that a file is given by exactly one of link and id.
func source(c *checker, n *node) {
	link, id := n.member("link"), n.member("id")
	switch {
	case link == nil && id == nil:
		c.missing(n, "link", "Or give the id of a library file in `%s`.", below(n, "id"))
	case link != nil && id != nil:
		c.invalid(id, "must not be given together with `%s`: send one of the two", link.param())
	case id != nil:
		c.files = append(c.files, n)
	}
	c.links = c.links || link != nil
	if link != nil && !fetchable(link.text) {
		c.invalid(link, "must be an absolute http or https URL, which the messaging network can fetch")
	}
}

func fetchable(link string) bool {
	parsed, err := url.Parse(link)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Hostname() != ""
}

func reaction(c *checker, n *node) {
	if target := n.member("message_id"); target != nil && strings.HasPrefix(target.text, ownID) {
		c.invalid(target, notOurs)
	}
}

func audio(c *checker, n *node) {
	source(c, n)
	if caption := n.member("caption"); caption != nil {
		c.invalid(caption, "must not be given: an audio has no caption")
	}
}

// longestBody is the number of characters of an interactive body, except in lists.
const longestBody = 1024

func interactive(c *checker, n *node) {
	kind, body, action := n.string("type"), n.member("body").member("text"), n.member("action")
	if length := utf8.RuneCountInString(body.text); kind != "list" && length > longestBody {
		c.invalid(body, "%s", span(length, 1, longestBody, "characters"))
	}
	headed(c, n.member("header"), kind)
	switch kind {
	case "list":
		need(c, action, kind, "button", "sections")
		sections(c, action.member("sections").items())
	case "cta_url":
		parameters := named(c, action, kind, "display_text", "url")
		if link := parameters.member("url"); link != nil && !fetchable(link.text) {
			c.invalid(link, "must be an absolute http or https URL")
		}
	case "flow":
		parameters := named(c, action, kind, "flow_message_version", "flow_cta")
		if parameters != nil && parameters.member("flow_id") == nil && parameters.member("flow_name") == nil {
			c.missing(parameters, "flow_id", "Or name the flow in `%s`.", below(parameters, "flow_name"))
		}
	default:
		need(c, action, kind, "buttons")
		buttons(c, action.member("buttons").items())
	}
}

// need requires members that the type of the message makes necessary.
func need(c *checker, object *node, kind string, names ...string) {
	for _, name := range names {
		if object.member(name) == nil {
			c.missing(object, name, "A message of type %s needs it.", kind)
		}
	}
}

// named checks an action that repeats the type as its name. It returns the parameters, or nil.
func named(c *checker, action *node, kind string, needed ...string) *node {
	need(c, action, kind, "name", "parameters")
	if name := action.member("name"); name != nil && name.text != kind {
		c.invalid(name, "must be %s, as the type; got %s", kind, name.text)
	}
	parameters := action.member("parameters")
	if parameters != nil {
		need(c, parameters, kind, needed...)
	}
	return parameters
}

// headed checks the header of an interactive message. A list can have a text only.
func headed(c *checker, header *node, kind string) {
	if header == nil {
		return
	}
	of := header.member("type")
	if kind == "list" && of.text != "text" {
		c.invalid(of, "must be text in a list; got %s", of.text)
		return
	}
	value := header.member(of.text)
	switch {
	case value == nil:
		c.missing(header, of.text, "The header has the type %s.", of.text)
	case of.text != "text":
		source(c, value)
	}
}

func buttons(c *checker, all []*node) {
	seen := map[string]string{}
	for _, button := range all {
		title := button.member("reply").member("title")
		if first, repeated := seen[title.text]; repeated {
			c.invalid(title, "must differ from the other titles; `%s` is %s, too", first, quoted(title.text))
			continue
		}
		seen[title.text] = title.param()
	}
}

// mostRows is the number of rows in all sections of a list.
const mostRows = 10

func sections(c *checker, all []*node) {
	count := 0
	for _, section := range all {
		title := section.member("title")
		switch {
		case len(all) == 1:
		case title == nil:
			c.missing(section, "title", "A list with several sections needs a title for each.")
		case strings.TrimSpace(title.text) == "":
			c.invalid(title, "must not be empty in a list with several sections")
		}
		rows := section.member("rows")
		before := count
		count += len(rows.items())
		if before <= mostRows && count > mostRows {
			c.invalid(rows, "must leave at most %d rows in all sections together; with this section there are %d", mostRows, count)
		}
	}
}
