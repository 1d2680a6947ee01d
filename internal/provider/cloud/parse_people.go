package cloud

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/parley-chat/parley/internal/provider"
)

var (
	bsuidInText = regexp.MustCompile(`\b[A-Z]{2}[.](?:ENT[.])?[A-Za-z0-9]{4,128}\b`)
	phoneInText = regexp.MustCompile(`\+?[0-9]{7,15}`)
)

// identity reads a system message. Fields come first; older callbacks have both identities
// in the words alone, the old one before the new.
func identity(given incoming, from provider.User) provider.Item {
	system := read[struct {
		Type           text `json:"type"`
		Body           text `json:"body"`
		WaID           text `json:"wa_id"`
		NewWaID        text `json:"new_wa_id"`
		UserID         text `json:"user_id"`
		Parent         text `json:"parent_user_id"`
		Previous       text `json:"previous_user_id"`
		PreviousParent text `json:"previous_parent_user_id"`
	}](given.fields["system"])
	change := provider.IdentityChange{ID: string(given.ID), At: given.Timestamp.at(), Body: string(system.Body), Previous: from, Current: from}
	switch {
	case system.Type == "user_changed_number":
		change.Reason = provider.IdentityNumberChanged
	case system.Type == "user_changed_user_id":
		change.Reason = provider.IdentityUserIDChanged
	case strings.HasSuffix(string(system.Type), "identity_changed"):
		change.Reason = provider.IdentitySecurityChange
		return change
	default:
		return provider.Unknown{Reason: "the system message " + line(string(system.Type))}
	}
	if system.Previous != "" {
		change.Previous.ID = string(system.Previous)
	}
	if system.PreviousParent != "" {
		change.Previous.ParentID = string(system.PreviousParent)
	}
	change.Current.ID, change.Current.ParentID = string(system.UserID), string(system.Parent)
	words := string(system.Body)
	if ids := bsuidInText.FindAllString(words, -1); len(ids) > 1 {
		fill(&change.Previous.ID, ids[0])
		fill(&change.Current.ID, ids[len(ids)-1])
	}
	if change.Reason == provider.IdentityNumberChanged {
		change.Current.Phone = phone(system.WaID)
		fill(&change.Current.Phone, phone(system.NewWaID))
		if numbers := phoneInText.FindAllString(bsuidInText.ReplaceAllString(words, ""), -1); len(numbers) > 1 {
			fill(&change.Previous.Phone, phone(text(numbers[0])))
			fill(&change.Current.Phone, phone(text(numbers[len(numbers)-1])))
		}
	}
	return change
}

func fill(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// history reads a chunk of old messages.
func (c *change) history(raw json.RawMessage, _ bool) {
	given := read[struct {
		Metadata struct {
			Phase    whole `json:"phase"`
			Chunk    whole `json:"chunk_order"`
			Progress whole `json:"progress"`
		} `json:"metadata"`
		Threads list            `json:"threads"`
		Errors  json.RawMessage `json:"errors"`
	}](raw)
	item := provider.History{
		Phase: given.Metadata.Phase.int(), Chunk: given.Metadata.Chunk.int(), Progress: given.Metadata.Progress.int(),
		Errors: c.errors(given.Errors),
	}
	for _, thread := range given.Threads {
		item.Threads = append(item.Threads, c.thread(thread))
	}
	c.one("history", item, raw, nil)
}

func (c *change) thread(raw json.RawMessage) provider.HistoryThread {
	given := read[struct {
		ID      text `json:"id"`
		Context struct {
			WaID     text `json:"wa_id"`
			UserID   text `json:"user_id"`
			Parent   text `json:"parent_user_id"`
			Username text `json:"username"`
		} `json:"context"`
		Messages list `json:"messages"`
	}](raw)
	waID := given.Context.WaID
	if waID == "" {
		waID = given.ID
	}
	thread := provider.HistoryThread{User: user(waID, given.Context.UserID, given.Context.Parent)}
	thread.User.Username = username(given.Context.Username)
	business := c.where.DisplayNumber
	for _, one := range given.Messages {
		message := incomingOf(one)
		content := message.content()
		from := phone(message.From)
		thread.Messages = append(thread.Messages, provider.HistoryMessage{
			ID: string(message.ID), At: message.Timestamp.at(), Type: string(message.Type), Content: content, Media: mediaIn(message.Type, content),
			// A message with a recipient is the business's, whichever number the app shows.
			FromBusiness: from != "" && from == business || message.To != "" || message.ToID != "",
			Status:       strings.ToLower(string(message.History.Status)), Raw: one,
		})
	}
	return thread
}

// stateSync reads an entry of the phone app's address book.
func (c *change) stateSync(raw json.RawMessage, _ bool) {
	given := read[struct {
		Type    text `json:"type"`
		Action  text `json:"action"`
		Contact struct {
			FullName  text `json:"full_name"`
			FirstName text `json:"first_name"`
			Phone     text `json:"phone_number"`
			UserID    text `json:"user_id"`
			Parent    text `json:"parent_user_id"`
			Username  text `json:"username"`
		} `json:"contact"`
		Metadata struct {
			Timestamp whole `json:"timestamp"`
		} `json:"metadata"`
	}](raw)
	if given.Type != "contact" && given.Type != "" {
		c.one("state_sync", provider.Unknown{Reason: "the phone app's " + line(string(given.Type))}, raw, nil)
		return
	}
	who := user(given.Contact.Phone, given.Contact.UserID, given.Contact.Parent)
	who.Name, who.Username = string(given.Contact.FullName), username(given.Contact.Username)
	c.one("state_sync", provider.PhoneAppContact{
		User: who, FirstName: string(given.Contact.FirstName), Removed: given.Action == "remove", At: given.Metadata.Timestamp.at(),
	}, raw, nil)
}
