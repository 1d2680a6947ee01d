package messages

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jsonout"
	"github.com/parley-chat/parley/internal/platform/phone"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// amendment is an edit or a revocation of a message by its author.
type amendment struct {
	callbacks.Inbound

	edit    *provider.Edit
	revoke  *provider.Revoke
	message ID
}

// original is the provider's id of the message that is amended.
func (a *amendment) original() string {
	if a.edit != nil {
		return a.edit.OriginalID
	}
	return a.revoke.OriginalID
}

// byAuthorOf tells that the author of a message amends it. A contact is known by the number or by the id
// that it has now; one that is unknown on either side does not count.
func (a *amendment) byAuthorOf(message *amended) bool {
	byBusiness, user := a.author()
	if byBusiness || message.Direction == Outbound {
		return byBusiness && message.Direction == Outbound
	}
	sameNumber, sameID := false, false
	numbersDiffer, idsDiffer := false, false
	if user.Phone != "" && message.ContactNumber != nil {
		sameNumber = phone.Key(user.Phone) == phone.Key(*message.ContactNumber) // a number has several national forms
		numbersDiffer = !sameNumber
	}
	if user.ID != "" && message.ContactBSUID != nil {
		sameID = user.ID == *message.ContactBSUID
		idsDiffer = !sameID
	}
	return sameNumber || sameID || !numbersDiffer && !idsDiffer
}

func (a *amendment) author() (byBusiness bool, user provider.User) {
	if a.edit != nil {
		return a.edit.ByBusiness, a.edit.User
	}
	return a.revoke.ByBusiness, a.revoke.User
}

// ids are the provider's ids to look up. The id of an applied edit is stored too, so that a repeated edit is
// recognized.
func (a *amendment) ids() []string {
	if a.edit != nil {
		return []string{a.edit.ID, a.edit.OriginalID}
	}
	return []string{a.revoke.OriginalID}
}

// editAlone is an edit as a message of its own: its original is not known, or its content is
// withheld. It is nil for an edit from the phone app without content.
func (b *batch) editAlone(one *amendment) *arrival {
	edit := one.edit
	switch {
	case edit.ByBusiness && len(edit.Content) == 0:
		return nil
	case edit.ByBusiness:
		return b.echoed(one.Inbound, provider.Echo{
			ID: edit.ID, At: edit.At, To: edit.User, Type: edit.Type, Content: edit.Content, Media: edit.Media,
		})
	case len(edit.Content) == 0:
		in := provider.Inbound{ID: edit.ID, At: edit.At, From: edit.User, Type: provider.TypeUnsupported, Unsupported: "edit"}
		if edit.OriginalID != "" {
			in.Reply = &provider.Reply{MessageID: edit.OriginalID}
		}
		return b.received(one.Inbound, in)
	default:
		return b.received(one.Inbound, provider.Inbound{
			ID: edit.ID, At: edit.At, From: edit.User, Type: edit.Type, Content: edit.Content, Media: edit.Media,
		})
	}
}

// version is one edit of a message, as message.edited shows it.
type version struct {
	Content  *string     `json:"content"`
	EditedAt clock.Stamp `json:"edited_at"`
}

// storedVersion also has the provider's id of the edit, which is erased with the message.
type storedVersion struct {
	version

	ID string `json:"id"`
}

// amended is a message that is amended, with its versions.
type amended struct {
	Said
	Person
	ProviderID   *string
	IsRevoked    bool
	FirstContent json.RawMessage
	EditHistory  json.RawMessage
}

// amendTx applies edits and revocations. It returns the events of those that contacts made.
func (b *batch) amendTx(ctx context.Context, tx *postgres.Tx) (drafts []events.Draft, err error) {
	if len(b.amended) == 0 {
		return nil, nil
	}
	all, err := lockAmended(ctx, tx, b.account.ID, postgres.Each(b.amended, func(a *amendment) ID { return a.message }))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	places, err := placesOf(ctx, tx, slices.Collect(maps.Keys(all)))
	if err != nil {
		return nil, err
	}
	for _, one := range b.amended {
		message := all[one.message]
		if message == nil {
			continue // of another number, or erased meanwhile
		}
		if !one.byAuthorOf(message) {
			b.s.logger.WarnContext(ctx, "messages.amended_by_another", "org", tx.Org(), "message", message.ID)
			continue
		}
		var data map[string]any
		kind := events.MessageRevoked
		if one.edit != nil {
			kind = events.MessageEdited
			if data, err = message.edit(*one.edit, b.timeOrNow(one.edit.At)); err != nil {
				return nil, err
			}
		} else if !message.IsRevoked {
			message.IsRevoked = true
			data = map[string]any{"revoked_at": clock.Stamp(b.timeOrNow(one.revoke.At))}
		}
		if data != nil && message.Direction == Inbound {
			if place, there := places[message.ID]; there { // false if the contact is being erased
				place.put(&message.Said, &message.Person)
			}
			drafts = append(drafts, b.amendedEvent(kind, message, data))
		}
	}
	return drafts, writeAmended(ctx, tx, slices.Collect(maps.Values(all)))
}

// edit changes the content, unless a later edit is known, and returns the data of message.edited.
// The first content and all versions are kept, in the order of their times.
func (a *amended) edit(edit provider.Edit, at time.Time) (map[string]any, error) {
	var versions []storedVersion
	if len(a.EditHistory) > 0 {
		if err := json.Unmarshal(a.EditHistory, &versions); err != nil {
			return nil, err
		}
	}
	if len(a.FirstContent) == 0 {
		a.FirstContent = a.Content
	}
	content, err := mergedContent(a.Content, edit.Content, edit.Type == provider.TypeText && a.Type != provider.TypeText)
	if err != nil {
		return nil, err
	}
	changed := version{Content: textOf(a.Type, content), EditedAt: clock.Stamp(at)}
	later := slices.ContainsFunc(versions, func(v storedVersion) bool { return time.Time(v.EditedAt).After(at) })
	if !later {
		a.Content = content
	}
	versions = append(versions, storedVersion{changed, edit.ID})
	slices.SortStableFunc(versions, func(x, y storedVersion) int { return time.Time(x.EditedAt).Compare(time.Time(y.EditedAt)) })
	if a.EditHistory, err = jsonout.Marshal(versions); err != nil {
		return nil, err
	}
	return map[string]any{
		"new_content": changed.Content, "original_content": textOf(a.Type, a.FirstContent), "edited_at": changed.EditedAt,
		"edit_history": postgres.Each(versions, func(v storedVersion) version { return v.version }),
	}, nil
}

// mergedContent is the content after an edit. An edit names only what changed: of a file its caption, which some edits
// carry as the body of a text.
func mergedContent(before, edit json.RawMessage, captioned bool) (json.RawMessage, error) {
	var fields, changes map[string]json.RawMessage
	if err := json.Unmarshal(edit, &changes); err != nil {
		return nil, err
	}
	if body, is := changes["body"]; is && captioned {
		changes["caption"] = body
		delete(changes, "body")
	}
	if err := json.Unmarshal(before, &fields); err != nil || fields == nil {
		fields = map[string]json.RawMessage{} // the original had no object
	}
	maps.Copy(fields, changes)
	return jsonout.Marshal(fields)
}

func (b *batch) amendedEvent(kind events.Type, message *amended, data map[string]any) events.Draft {
	maps.Copy(data, map[string]any{
		"message_id": message.ID, "provider_id": message.ProviderID, "conversation_id": message.ConversationID,
		"contact_id": message.ContactID, "contact_phone_number": message.ContactNumber,
		"phone_number_id": numberOfAccount(b.account), "display_phone_number": digitsOf(b.account.PhoneNumber),
	})
	return events.Draft{
		Type: kind, PhoneNumberID: numberOfAccount(b.account), Contact: message.ContactID.Any(), Message: message.ID.Any(), Data: data,
	}
}
