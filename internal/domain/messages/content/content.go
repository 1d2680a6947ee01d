// Package content checks the content of messages that are to be sent, and says what is kept of it.
// The HTTP edge checks a body against the contract's schema first. Broadcasts and the dashboard have
// no such body, so Parse checks the schema's rules again, and answers the same code and param.
// The package reads no database; Against compares a template message with its synced template.
package content

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/internal/provider"
)

// Content is the checked content of a message.
type Content struct {
	Type string
	// Object is the content object with the names of the specification and with all fields that the
	// caller sent, without blanks and needless escapes. It is what is stored and sent.
	Object json.RawMessage
	// Body is the text that people read: the text, the caption, the text of an interactive message,
	// or the rendered template. It is empty for audios, reactions, and templates before Against.
	Body string
	// Media is set for images, documents, videos and audios.
	Media *Media
	// Reaction is set for reactions.
	Reaction *Reaction
	// Template is set for templates.
	Template *Template
	// Library lists every library file that the content uses, also in headers and templates. The
	// caller looks them up.
	Library []Reference
	// Links is true when the content has a file that the provider fetches by its link.
	Links bool
	// Flow is true when the message opens a form. Of a template Against tells.
	Flow bool
}

// Media is a file, given by exactly one of Link and ID.
type Media struct {
	Link string
	// ID is the id of a library file (med_...).
	ID       string
	Caption  string
	Filename string
	// Voice is true for a voice note.
	Voice bool
}

// Reaction is an emoji on a message.
type Reaction struct {
	// MessageID is the provider's id of the message that is reacted to.
	MessageID string
	// Emoji is empty when the reaction is to be removed.
	Emoji string
}

// Template says which template is sent, and with which values.
type Template struct {
	// Name has no surrounding blanks.
	Name     string
	Language string
	// Components is a JSON array, or nil when the message has none.
	Components json.RawMessage
}

// Reference is a library file that the content uses.
type Reference struct {
	// Param is the path of the id, for the fault when there is no such file.
	Param string
	ID    string
	// Type is the type of message that the file is sent as: image, document, video or audio.
	Type string
}

// Parse checks the content object of a message type. The first fault in the order of the fields is
// returned, missing fields before invalid ones.
func Parse(kind string, object json.RawMessage) (Content, error) {
	content, faults := Inspect(kind, object)
	if len(faults) > 0 {
		return Content{}, faults[0]
	}
	return content, nil
}

// Inspect is Parse that returns every fault. Content with faults has no Object, and of the rest only
// what can be read all the same.
func Inspect(kind string, object json.RawMessage) (Content, []*fault.Error) {
	root, found, err := examine(kind, object)
	if err != nil {
		return Content{Type: kind}, []*fault.Error{err}
	}
	if faults := found.faults(); len(faults) > 0 {
		return glimpse(kind, root), faults
	}
	content := keep(kind, root)
	content.Library, content.Links = references(found.files), found.links
	return content, nil
}

// references are the library files of objects that name them by id.
func references(files []*node) (library []Reference) {
	for _, file := range files {
		id := file.member("id")
		library = append(library, Reference{Param: id.param(), ID: id.text, Type: file.name})
	}
	return library
}

// examine returns the tree of an object, and its faults. The rules of the contract's schema come
// first, because the edge answers them first. The other rules are applied to objects that fit it.
func examine(kind string, object json.RawMessage) (*node, checker, *fault.Error) {
	var c checker
	if err := checkKind(kind); err != nil {
		return nil, c, err
	}
	root, err := parse(kind, object)
	if err != nil {
		return nil, c, err
	}
	shapes[kind](&c, root)
	if len(c.found) == 0 {
		rules[kind](&c, root)
	}
	return root, c, nil
}

// inspect returns the tree of an object that has no fault, and the objects in it that name a library file.
func inspect(kind string, object json.RawMessage) (root *node, files []*node, err error) {
	root, found, refusal := examine(kind, object)
	if refusal != nil {
		return nil, nil, refusal
	}
	if faults := found.faults(); len(faults) > 0 {
		return nil, nil, faults[0]
	}
	return root, found.files, nil
}

// Library lists the library files in the stored content of a message.
func Library(kind string, object json.RawMessage) ([]Reference, error) {
	if !bytes.Contains(object, []byte(`"med_`)) {
		return nil, nil // most messages have none
	}
	_, files, err := inspect(kind, object)
	return references(files), err
}

// WithUploads returns stored content with the provider's ids in place of the library's.
func WithUploads(kind string, object json.RawMessage, uploads map[string]string) (json.RawMessage, error) {
	root, files, err := inspect(kind, object)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		id := file.member("id")
		upload, known := uploads[id.text]
		if !known {
			return nil, fmt.Errorf("the file %s is not uploaded", id.text)
		}
		id.text = upload
	}
	return root.append(nil), nil
}

// WithFilenames names documents that the caller gave no name by the names of their library files. Without a name the
// messaging network shows them as untitled.
func (c Content) WithFilenames(names map[string]string) (Content, error) {
	root, files, err := inspect(c.Type, c.Object)
	if err != nil {
		return c, err
	}
	for _, file := range files {
		name := names[file.member("id").text]
		if name != "" && file.name == provider.TypeDocument && file.member("filename") == nil {
			file.children = append(file.children, &node{kind: jsontext.KindString, parent: file, name: "filename", text: name})
		}
	}
	c.Object = root.append(nil)
	return c, nil
}

// NeedsTemplate tells whether Against must be called before the content is sent.
func (c Content) NeedsTemplate() bool { return c.Type == provider.TypeTemplate }

func checkKind(kind string) *fault.Error {
	if kind == "" {
		return fault.Missing("type")
	}
	if shapes[kind] == nil {
		return fault.Invalid("type", "must be one of text, image, document, video, audio, template, interactive, reaction")
	}
	return nil
}

// parse reads a content object into a tree. It is parsed as the only member of a body, so that the
// params of syntax faults start with the type, as those of a request do.
func parse(kind string, object json.RawMessage) (*node, *fault.Error) {
	switch {
	case len(object) == 0:
		return nil, fault.Missing(kind)
	case len(object) > jsonin.MaxBodyBytes:
		return nil, fault.New(fault.RequestTooLarge, "The content is larger than %d bytes.", jsonin.MaxBodyBytes).At(kind)
	case !json.Valid(object): // else `{},"a":{}` would become two members of the body
		return nil, fault.Invalid(kind, "is not valid JSON")
	}
	body := append([]byte(`{"`+kind+`":`), object...)
	document, err := jsonin.Parse(append(body, '}'))
	if err != nil {
		return nil, fault.As(err) // every error of Parse is a fault
	}
	return read(document.Raw()).member(kind), nil
}

// keep returns what is kept of a checked object.
func keep(kind string, object *node) Content {
	content := Content{Type: kind}
	switch kind {
	case provider.TypeText:
		content.Body = object.member("body").text
	case provider.TypeInteractive:
		content.Body, content.Flow = object.member("body").member("text").text, object.string("type") == "flow"
	case provider.TypeReaction:
		content.Reaction = &Reaction{MessageID: object.string("message_id"), Emoji: object.string("emoji")}
	case provider.TypeTemplate:
		content.Template = keepTemplate(object)
	default:
		content.Media = &Media{
			Link: object.string("link"), ID: object.string("id"), Caption: object.string("caption"), Filename: object.string("filename"),
			Voice: object.member("voice").is(true),
		}
		content.Body = content.Media.Caption
	}
	content.Object = object.append(nil)
	return content
}

// glimpse returns what can be told of an object with faults.
func glimpse(kind string, object *node) Content {
	content := Content{Type: kind}
	switch kind {
	case provider.TypeText, provider.TypeReaction:
	case provider.TypeInteractive:
		content.Flow = object.string("type") == "flow"
	case provider.TypeTemplate:
		template := Template{Name: strings.TrimSpace(object.string("name")), Language: object.string("language")}
		if code := object.member("language").string("code"); code != "" {
			template.Language = code
		}
		if template.Name != "" && template.Language != "" {
			content.Template = &template
		}
	default:
		content.Links = object.string("link") != ""
		if id := object.string("id"); libraryID.MatchString(id) && !content.Links {
			content.Library = []Reference{{Param: below(object, "id"), ID: id, Type: kind}}
		}
	}
	return content
}

// keepTemplate also cuts the blanks around the name in the object itself, which is sent.
func keepTemplate(object *node) *Template {
	name := object.member("name")
	name.text = strings.TrimSpace(name.text)
	template := &Template{Name: name.text, Language: object.string("language")}
	if code := object.member("language").member("code"); code != nil {
		template.Language = code.text
	}
	if components := object.member("components"); components != nil {
		template.Components = components.append(nil)
	}
	return template
}
