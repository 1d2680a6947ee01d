// Package content holds the rules for what can be sent: the content of every message type,
// and templates, when they are created and when they are sent. It has no state.
package content

import "strings"

type object = map[string]any

const (
	kindDocument  = "document"
	kindReaction  = "reaction"
	fieldContacts = "contacts"
)

// kinds holds the message types that can be sent, each with the check of its content.
var kinds = map[string]func(r *Reader, content any){
	"text":        single(checkText),
	"image":       single(captioned("image")),
	"video":       single(captioned("video")),
	kindDocument:  single(checkDocument),
	"audio":       single(func(r *Reader, of object) { checkSource(r, of, "audio") }),
	"sticker":     single(func(r *Reader, of object) { checkSource(r, of, "sticker") }),
	kindReaction:  single(checkReaction),
	"location":    single(checkLocation),
	fieldContacts: checkContacts,
	"interactive": single(checkInteractive),
	"template":    single(checkTemplateName),
}

// Check checks the content of a message; the reader keeps the error. It returns false for an
// unknown type.
func Check(r *Reader, kind string, content any) (known bool) {
	check, known := kinds[kind]
	if known && content != nil {
		check(r, content)
	}
	return known
}

// single checks content that is one object.
func single(check func(r *Reader, of object)) func(r *Reader, content any) {
	return func(r *Reader, content any) {
		of, ok := content.(object)
		if !ok {
			r.fail(131009, "The content of the message must be a JSON object.")
			return
		}
		check(r, of)
	}
}

func checkText(r *Reader, of object) { r.Text(of, "text", "body", 1, 4096) }

// checkSource requires either an id or a link.
func checkSource(r *Reader, of object, path string) {
	id, link := r.Text(of, path, "id", 0, 512), r.Text(of, path, "link", 0, 2048)
	switch {
	case id == "" && link == "":
		r.fail(131008, "One of the parameters %s, %s is mandatory", at(path, "id"), at(path, "link"))
	case id != "" && link != "":
		r.fail(131009, "Only one of the parameters %s, %s may be given", at(path, "id"), at(path, "link"))
	case link != "" && !strings.HasPrefix(link, "http://") && !strings.HasPrefix(link, "https://"):
		r.fail(131009, "Param %s must be a valid URI.", at(path, "link"))
	}
}

func captioned(path string) func(r *Reader, of object) {
	return func(r *Reader, of object) {
		checkSource(r, of, path)
		r.Text(of, path, "caption", 0, 1024)
	}
}

func checkDocument(r *Reader, of object) {
	captioned(kindDocument)(r, of)
	r.Text(of, kindDocument, "filename", 0, 240)
}

func checkReaction(r *Reader, of object) {
	r.Text(of, kindReaction, "message_id", 1, 512)
	r.Text(of, kindReaction, "emoji", 0, 32)
}

func checkLocation(r *Reader, of object) {
	r.number(of, "location", "latitude", -90, 90)
	r.number(of, "location", "longitude", -180, 180)
	r.Text(of, "location", "name", 0, 1000)
	r.Text(of, "location", "address", 0, 1000)
}

func checkContacts(r *Reader, content any) {
	cards := r.list(object{fieldContacts: content}, "", fieldContacts, 1, 257)
	for _, card := range cards {
		if name := r.Object(card, fieldContacts, "name", true); r.err == nil {
			r.Text(name, "contacts['name']", "formatted_name", 1, 1000)
		}
	}
}

func checkInteractive(r *Reader, of object) {
	kind := r.Text(of, "interactive", "type", 1, 64)
	action := r.Object(of, "interactive", "action", true)
	headers, longest := "text image video document", 1024
	switch kind {
	case "button":
		checkButtons(r, action)
	case "list":
		headers, longest = "text", 4096
		checkList(r, action)
	case "cta_url":
		parameters := r.Object(action, "interactive['action']", "parameters", true)
		r.Text(parameters, "parameters", "display_text", 1, 20)
		r.Text(parameters, "parameters", "url", 1, 2000)
	case "flow":
		parameters := r.Object(action, "interactive['action']", "parameters", true)
		r.Text(parameters, "parameters", "flow_message_version", 1, 8)
		r.Text(parameters, "parameters", "flow_cta", 1, 30)
		if parameters["flow_id"] == nil && parameters["flow_name"] == nil {
			r.fail(131008, "One of the parameters flow_id, flow_name is mandatory")
		}
	case "location_request_message", "request_contact_info":
		headers = ""
	case "product", "product_list", "catalog_message", "call_permission_request", "voice_call", "carousel", "address_message":
		return // their content is not documented
	default:
		r.fail(131009, "Param interactive['type'] is not a valid interactive type: %q", kind)
	}
	checkFrame(r, of, headers, longest)
}

// checkFrame checks body, footer and header; headers names the allowed header types.
func checkFrame(r *Reader, of object, headers string, longest int) {
	body := r.Object(of, "interactive", "body", true)
	r.Text(body, "interactive['body']", "text", 1, longest)
	if footer := r.Object(of, "interactive", "footer", false); footer != nil {
		r.Text(footer, "interactive['footer']", "text", 1, 60)
	}
	header := r.Object(of, "interactive", "header", false)
	if header == nil {
		return
	}
	kind := r.Text(header, "interactive['header']", "type", 1, 16)
	switch {
	case !strings.Contains(headers, kind):
		r.fail(131009, "Param interactive['header']['type'] cannot be %q here", kind)
	case kind == "text":
		r.Text(header, "interactive['header']", "text", 1, 60)
	default:
		if source := r.Object(header, "interactive['header']", kind, true); r.err == nil {
			checkSource(r, source, "interactive['header']['"+kind+"']")
		}
	}
}

func checkButtons(r *Reader, action object) {
	seen := map[string]bool{}
	for _, button := range r.list(action, "interactive['action']", "buttons", 1, 3) {
		if r.Text(button, "buttons", "type", 1, 16) != "reply" {
			r.fail(131009, "Param buttons['type'] must be one of {reply}.")
		}
		answer := r.Object(button, "buttons", "reply", true)
		r.Text(answer, "buttons['reply']", "id", 1, 256)
		title := r.Text(answer, "buttons['reply']", "title", 1, 20)
		if seen[title] {
			r.fail(131009, "Param buttons['reply']['title'] must be unique: %q", title)
		}
		seen[title] = true
	}
}

func checkList(r *Reader, action object) {
	r.Text(action, "interactive['action']", "button", 1, 20)
	sections := r.list(action, "interactive['action']", "sections", 1, 10)
	total := 0
	for _, section := range sections {
		least := 0
		if len(sections) > 1 {
			least = 1
		}
		r.Text(section, "sections", "title", least, 24)
		for _, row := range r.list(section, "sections", "rows", 1, 10) {
			total++
			r.Text(row, "rows", "id", 1, 200)
			r.Text(row, "rows", "title", 1, 24)
			r.Text(row, "rows", "description", 0, 72)
		}
	}
	if total > 10 {
		r.fail(131009, "Total row count exceed max allowed count: 10")
	}
}

// IsMedia tells whether the content of a type is a file.
func IsMedia(kind string) bool { return allowed[kind].types != nil }
