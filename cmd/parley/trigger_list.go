package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
)

// triggers are what can be triggered, in the order of the catalogue of events.
func triggers() []trigger {
	return []trigger{
		inbound("message.received", "a person writes a text", textKind),
		inbound("message.received.image", "a person sends a picture", "image"),
		inbound("message.received.audio", "a person sends a voice note", "audio"),
		inbound("message.received.video", "a person sends a video", "video"),
		inbound("message.received.document", "a person sends a document", "document"),
		inbound("message.received.location", "a person sends a location", "location"),
		inbound("message.received.contacts", "a person sends a contact card", "contacts"),
		inbound("message.received.unsupported", "a person sends what the network does not pass on", "unsupported"),
		{"message.received.reaction", "a person writes, then reacts to that message", (*triggering).reaction},
		{"message.status", "the business sends a text; it is sent, delivered and read", (*triggering).send},
		{"message.status.failed", "the business sends a text outside of the 24-hour window", (*triggering).failedSend},
		{"message.sent", "the business sends a text", (*triggering).send},
		{"message.sent.app", "the business writes in its phone app", (*triggering).echo},
		{"message.revoked", "a person writes, then deletes the message", (*triggering).revoke},
		{"message.edited", "a person writes, then changes the message", (*triggering).edit},
		{"conversation.assigned", "a person's conversation is assigned to a user of the organization", (*triggering).assign},
		{"conversation.closed", "a person's conversation is resolved", (*triggering).resolve},
		{"contact.created", "a person writes for the first time", (*triggering).stranger},
		{"contact.updated", "a contact is renamed", (*triggering).rename},
		{"contact.identity_updated", "a person changes the phone number", (*triggering).renumber},
		{"customer.created", "a customer is created", (*triggering).customer},
		{"customer.updated", "a customer is renamed", (*triggering).renameCustomer},
		{"customer.archived", "a customer is archived", (*triggering).archiveCustomer},
		{"customer.onboarded", "a customer connects a number by a setup link", (*triggering).onboard},
		{"customer.setup_link.created", "a setup link is created", (*triggering).setupLink},
		{"customer.setup_link.consumed", "a customer connects a number by a setup link", (*triggering).onboard},
		{"template.rejected", "the network rejects a template: its status changes, no event follows", (*triggering).rejectTemplate},
	}
}

func inbound(name, says, kind string) trigger {
	return trigger{name: name, says: says, do: func(t *triggering, ctx context.Context) (string, error) {
		var content any
		if kind == textKind {
			content = fields{"body": t.text}
		}
		id, err := t.writes(ctx, kind, content)
		return fmt.Sprintf("%s wrote %s (%s)", t.person, id, kind), err
	}}
}

func (t *triggering) reaction(ctx context.Context) (string, error) {
	id, err := t.knownText(ctx)
	if err != nil {
		return "", err
	}
	_, err = t.writes(ctx, "reaction", fields{"message_id": id, "emoji": "👍"})
	return fmt.Sprintf("%s wrote %s and reacted to it", t.person, id), err
}

func (t *triggering) send(ctx context.Context) (string, error) {
	id, err := t.sends(ctx, t.person)
	return fmt.Sprintf("%s was sent to %s", id, t.person), err
}

// failedSend sends to a number whose messages fail with the code in its digits (docs/guides/simulator.md, Reserved recipients).
func (t *triggering) failedSend(ctx context.Context) (string, error) {
	const outsideWindow = "+15552131047"
	id, err := t.sends(ctx, outsideWindow)
	return fmt.Sprintf("%s was sent to %s, which has not written for 24 hours", id, outsideWindow), err
}

func (t *triggering) echo(ctx context.Context) (string, error) {
	answer, err := t.sim(ctx, "echo", fields{
		numberField: t.number, "to": strings.TrimPrefix(t.person, "+"), "type": textKind, textKind: fields{"body": t.text},
	})
	return fmt.Sprintf("the business wrote %v in its phone app", answer["id"]), err
}

func (t *triggering) revoke(ctx context.Context) (string, error) {
	id, err := t.knownText(ctx)
	if err != nil {
		return "", err
	}
	_, err = t.writes(ctx, "revoke", fields{"original_message_id": id})
	return fmt.Sprintf("%s wrote %s and deleted it", t.person, id), err
}

func (t *triggering) edit(ctx context.Context) (string, error) {
	id, err := t.knownText(ctx)
	if err != nil {
		return "", err
	}
	_, err = t.writes(ctx, "edit", fields{
		"original_message_id": id, "message": fields{"type": textKind, textKind: fields{"body": t.text + " (changed)"}},
	})
	return fmt.Sprintf("%s wrote %s and changed it", t.person, id), err
}

// conversation is that of the person, who writes first so that there is one.
func (t *triggering) conversation(ctx context.Context) (id string, err error) {
	contact, err := t.contact(ctx)
	if err != nil {
		return "", err
	}
	found, err := t.appears(ctx, "/"+t.number+"/conversations?limit=100", func(one fields) bool {
		with, _ := one["contact"].(fields)
		return with["id"] == contact || one["contact_id"] == contact
	})
	id, _ = found["id"].(string)
	return id, err
}

// contact is that of the person, who writes first so that there is one.
func (t *triggering) contact(ctx context.Context) (id string, err error) {
	if _, err := t.writesText(ctx); err != nil {
		return "", err
	}
	return t.knownContact(ctx)
}

// knownContact waits until the API knows the person.
func (t *triggering) knownContact(ctx context.Context) (id string, err error) {
	found, err := t.appears(ctx, "/"+t.number+"/contacts?phone_number="+url.QueryEscape(t.person), func(fields) bool { return true })
	id, _ = found["id"].(string)
	return id, err
}

func (t *triggering) assign(ctx context.Context) (string, error) {
	id, err := t.conversation(ctx)
	if err != nil {
		return "", err
	}
	var me struct {
		Teams []struct {
			Members []struct {
				ID string `json:"id"`
			} `json:"members"`
		} `json:"teams"`
	}
	if err := t.api.call(ctx, http.MethodGet, "/me", nil, &me); err != nil {
		return "", err
	}
	if len(me.Teams) == 0 || len(me.Teams[0].Members) == 0 {
		return "", fmt.Errorf("the organization has no user: make one with `parley admin user create`")
	}
	user := me.Teams[0].Members[0].ID
	path := "/" + t.number + "/conversations/" + id
	if err := t.api.call(ctx, http.MethodPatch, path, fields{"assigned_to": nil}, nil); err != nil { // so that it changes
		return "", err
	}
	err = t.api.call(ctx, http.MethodPatch, path, fields{"assigned_to": user}, nil)
	return fmt.Sprintf("%s was assigned to %s", id, user), err
}

func (t *triggering) resolve(ctx context.Context) (string, error) {
	id, err := t.conversation(ctx)
	if err != nil {
		return "", err
	}
	path := "/" + t.number + "/conversations/" + id
	if err := t.api.call(ctx, http.MethodPatch, path, fields{"status": "open"}, nil); err != nil { // so that it changes
		return "", err
	}
	err = t.api.call(ctx, http.MethodPatch, path, fields{"status": "resolved"}, nil)
	return id + " was resolved", err
}

// stranger has a person write who never wrote before.
func (t *triggering) stranger(ctx context.Context) (string, error) {
	digits, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", err
	}
	t.person = fmt.Sprintf("+15551%06d", digits.Int64())
	id, err := t.writesText(ctx)
	return fmt.Sprintf("%s wrote %s for the first time", t.person, id), err
}

func (t *triggering) rename(ctx context.Context) (string, error) {
	id, err := t.contact(ctx)
	if err != nil {
		return "", err
	}
	name := "Ada " + rand.Text()[:4]
	err = t.api.call(ctx, http.MethodPatch, "/"+t.number+"/contacts/"+id, fields{"name": name}, nil)
	return fmt.Sprintf("%s is now named %s", id, name), err
}

func (t *triggering) renumber(ctx context.Context) (string, error) {
	if _, err := t.stranger(ctx); err != nil {
		return "", err
	}
	before := t.person
	if _, err := t.knownContact(ctx); err != nil {
		return "", err
	}
	after := strings.Replace(before, "+15551", "+15553", 1)
	_, err := t.sim(ctx, "system", fields{
		numberField: t.number, "from": strings.TrimPrefix(before, "+"),
		"type": "user_changed_number", "new_phone": strings.TrimPrefix(after, "+"),
	})
	return fmt.Sprintf("%s changed the phone number to %s", before, after), err
}
