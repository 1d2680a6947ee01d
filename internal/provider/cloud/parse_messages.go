package cloud

import (
	"encoding/json"
	"strings"

	"github.com/parley-chat/parley/internal/provider"
)

// lists are the members of a value that hold items. Any field may hold any of them.
var lists = []string{"messages", "message_echoes", "statuses", "history", "state_sync", "user_preferences", "errors"}

func (c *change) messages() {
	c.people = persons(c.value["contacts"])
	historic := c.field == "history"
	readers := map[string]func(raw json.RawMessage, single bool){
		"messages":         func(raw json.RawMessage, single bool) { c.inbound(raw, single, historic) },
		"message_echoes":   func(raw json.RawMessage, single bool) { c.echo(raw, single, historic) },
		"statuses":         c.status,
		"history":          c.history,
		"state_sync":       c.stateSync,
		"user_preferences": c.preference,
		"errors":           c.trouble,
	}
	for _, name := range lists {
		given, present := c.value[name]
		items := elements(given)
		for _, raw := range items {
			if len(raw) == 0 || raw[0] != '{' {
				c.one(name, provider.Unknown{Reason: "an item of " + name + " that is no object"}, raw, nil)
				continue
			}
			readers[name](raw, len(items) == 1)
		}
		if present && items == nil && string(given) != "null" {
			c.unknown(name + " is not a list")
		}
	}
}

// incoming has the fields that messages, echoes and old messages share.
type incoming struct {
	ID         text            `json:"id"`
	From       text            `json:"from"`
	FromID     text            `json:"from_user_id"`
	FromParent text            `json:"from_parent_user_id"`
	To         text            `json:"to"`
	ToID       text            `json:"to_user_id"`
	ToParent   text            `json:"to_parent_user_id"`
	Timestamp  whole           `json:"timestamp"`
	Type       text            `json:"type"`
	Origin     text            `json:"origin"`
	Group      text            `json:"group_id"`
	Referral   json.RawMessage `json:"referral"`
	Errors     json.RawMessage `json:"errors"`
	Context    struct {
		ID         text `json:"id"`
		From       text `json:"from"`
		Forwarded  flag `json:"forwarded"`
		Frequently flag `json:"frequently_forwarded"`
	} `json:"context"`
	History struct {
		Status text `json:"status"`
	} `json:"history_context"`

	fields members
}

func incomingOf(raw json.RawMessage) incoming {
	given := read[incoming](raw)
	given.fields = fieldsOf(raw)
	return given
}

// content is the object named by the type.
func (i incoming) content() json.RawMessage { return i.fields[string(i.Type)] }

func (i incoming) reply() *provider.Reply {
	if i.Context.ID == "" {
		return nil
	}
	return &provider.Reply{MessageID: string(i.Context.ID), From: phone(i.Context.From)}
}

// mediaTypes are those whose content is a file.
var mediaTypes = map[text]bool{"image": true, "video": true, "document": true, "audio": true, "sticker": true}

// mediaIn reads the file of a message, if its type has one.
func mediaIn(kind text, content json.RawMessage) *provider.MediaRef {
	if !mediaTypes[kind] {
		return nil
	}
	given := read[struct {
		ID       text `json:"id"`
		URL      text `json:"url"`
		MIMEType text `json:"mime_type"`
		SHA256   text `json:"sha256"`
		Caption  text `json:"caption"`
		Filename text `json:"filename"`
		Voice    flag `json:"voice"`
		Animated flag `json:"animated"`
	}](content)
	if given.ID == "" && given.URL == "" {
		return nil
	}
	return &provider.MediaRef{
		ID: string(given.ID), URL: string(given.URL), MIMEType: string(given.MIMEType), SHA256: sum(given.SHA256),
		Caption: string(given.Caption), Filename: string(given.Filename), Voice: bool(given.Voice), Animated: bool(given.Animated),
	}
}

func reactionIn(kind text, content json.RawMessage) *provider.Reaction {
	if kind != provider.TypeReaction {
		return nil
	}
	given := read[struct {
		MessageID text `json:"message_id"`
		Emoji     text `json:"emoji"`
	}](content)
	return &provider.Reaction{MessageID: string(given.MessageID), Emoji: string(given.Emoji)}
}

// inbound reads a message, edit, revocation or system message of a user.
func (c *change) inbound(raw json.RawMessage, single, historic bool) {
	given := incomingOf(raw)
	from, contact := c.profile(user(given.From, given.FromID, given.FromParent), single)
	var item provider.Item
	switch {
	case given.ID == "" && given.Type != provider.TypeSystem:
		item = provider.Unknown{Reason: "a message without an id"}
	case given.Type == provider.TypeSystem:
		item = identity(given, from)
	case given.Type == "edit" || given.Type == "revoke":
		item = amended(given, from, false, historic)
	default:
		item = provider.Inbound{
			ID: string(given.ID), From: from, At: given.Timestamp.at(), Type: string(given.Type), Content: given.content(),
			Reply: given.reply(), Forwarded: bool(given.Context.Forwarded || given.Context.Frequently),
			Media: mediaIn(given.Type, given.content()), Reaction: reactionIn(given.Type, given.content()),
			GroupID: string(given.Group), Unsupported: unsupported(given), Origin: string(given.Origin), Referral: given.Referral,
			Errors: c.errors(given.Errors), Historic: historic,
		}
	}
	c.one("messages", item, raw, contact)
}

// unsupported is the kind of content that the network withholds; older callbacks do not name it.
func unsupported(given incoming) string {
	if given.Type != provider.TypeUnsupported {
		return ""
	}
	kind := read[struct {
		Type text `json:"type"`
	}](given.fields["unsupported"]).Type
	if kind == "" {
		return "unknown"
	}
	return string(kind)
}

// amended reads an edit or a revocation by the author.
func amended(given incoming, who provider.User, byBusiness, historic bool) provider.Item {
	change := read[struct {
		Original text    `json:"original_message_id"`
		Message  members `json:"message"`
	}](given.fields[string(given.Type)])
	if given.Type == "revoke" {
		return provider.Revoke{
			ID: string(given.ID), At: given.Timestamp.at(), OriginalID: string(change.Original), ByBusiness: byBusiness, User: who,
			GroupID: string(given.Group), Historic: historic,
		}
	}
	kind := read[text](change.Message["type"])
	content := change.Message[string(kind)]
	return provider.Edit{
		ID: string(given.ID), At: given.Timestamp.at(), OriginalID: string(change.Original), ByBusiness: byBusiness, User: who,
		GroupID: string(given.Group), Historic: historic, Type: string(kind), Content: content, Media: mediaIn(kind, content),
	}
}

// echo reads a message that the business sent in the phone app.
func (c *change) echo(raw json.RawMessage, single, historic bool) {
	given := incomingOf(raw)
	to, contact := c.profile(user(given.To, given.ToID, given.ToParent), single)
	var item provider.Item
	switch {
	case given.ID == "":
		item = provider.Unknown{Reason: "an echo without an id"}
	case given.Type == "edit" || given.Type == "revoke":
		item = amended(given, to, true, historic)
	default:
		item = provider.Echo{
			ID: string(given.ID), At: given.Timestamp.at(), To: to, Type: string(given.Type), Content: given.content(), Reply: given.reply(),
			Media: mediaIn(given.Type, given.content()), Reaction: reactionIn(given.Type, given.content()), Historic: historic,
		}
	}
	c.one("message_echoes", item, raw, contact)
}

// status reads a status of a message.
func (c *change) status(raw json.RawMessage, single bool) {
	given := read[struct {
		ID          text            `json:"id"`
		Status      text            `json:"status"`
		Timestamp   whole           `json:"timestamp"`
		Recipient   text            `json:"recipient_id"`
		RecipientID text            `json:"recipient_user_id"`
		Parent1     text            `json:"parent_recipient_user_id"`
		Parent2     text            `json:"recipient_parent_user_id"`
		Parent3     text            `json:"parent_user_id"`
		Opaque      text            `json:"biz_opaque_callback_data"`
		Errors      json.RawMessage `json:"errors"`
	}](raw)
	parent := given.Parent1 // three spellings, each in some document
	for _, other := range []text{given.Parent2, given.Parent3} {
		if parent == "" {
			parent = other
		}
	}
	to, contact := c.profile(user(given.Recipient, given.RecipientID, parent), single)
	var item provider.Item = provider.Status{
		MessageID: string(given.ID), Status: strings.ToLower(string(given.Status)), At: given.Timestamp.at(), Recipient: to,
		Reference: string(given.Opaque), Errors: c.errors(given.Errors),
	}
	if given.ID == "" || given.Status == "" {
		item = provider.Unknown{Reason: "a status without an id or a status"}
	}
	c.one("statuses", item, raw, contact)
}

// preference reads a choice about marketing messages.
func (c *change) preference(raw json.RawMessage, single bool) {
	given := read[struct {
		WaID      text  `json:"wa_id"`
		UserID    text  `json:"user_id"`
		Parent    text  `json:"parent_user_id"`
		Detail    text  `json:"detail"`
		Category  text  `json:"category"`
		Value     text  `json:"value"`
		Timestamp whole `json:"timestamp"`
	}](raw)
	who, contact := c.profile(user(given.WaID, given.UserID, given.Parent), single)
	c.one("user_preferences", provider.Preference{
		User: who, At: given.Timestamp.at(), Category: string(given.Category), Value: strings.ToLower(string(given.Value)),
		Detail: string(given.Detail),
	}, raw, contact)
}

func (c *change) trouble(raw json.RawMessage, _ bool) {
	c.one("errors", provider.Trouble{Error: c.client.failure(read[refusal](raw), 0, request{})}, raw, nil)
}
