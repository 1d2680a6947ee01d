package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// seen resolves sightings of people, a second after the previous ones, and returns their contacts.
func (n number) seen(t *testing.T, sightings ...contacts.Sighting) []contacts.Contact {
	t.Helper()
	n.s.Clock.Move(time.Second)
	for i := range sightings {
		if sightings[i].At.IsZero() {
			sightings[i].At = n.s.Clock.Now()
		}
	}
	found, err := postgres.InTx(t.Context(), n.s.DB, n.Org, func(tx *postgres.Tx) ([]contacts.Contact, error) {
		return n.s.Contacts.ResolveTx(t.Context(), tx, n.account, sightings)
	})
	require.NoError(t, err)
	return found
}

func (n number) contact(t *testing.T, id contacts.ID) map[string]any {
	t.Helper()
	answer := n.Get(t, n.path+"/contacts/"+id.String())
	require.Equal(t, 200, answer.Status)
	return answer.Data(t)
}

// identityUpdated is the expected event contact.identity_updated, with the contact as it is now.
func (n number) identityUpdated(contact, previous map[string]any, reason string, fields ...any) map[string]any {
	return map[string]any{"type": "contact.identity_updated", "created_at": contact["updated_at"], "data": map[string]any{
		"contact": n.inEvents(contact), "previous": previous, "changed_fields": fields, "reason": reason,
	}}
}

func TestContacts_FirstSighting_CreatesContact(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	found := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1", ParentBSUID: "PT.ENT.1", Username: "@marta.reis", Name: " Marta "})
	contact := n.contact(t, found[0].ID)
	for field, want := range map[string]any{
		"phone_number": "+351910000001", "bsuid": "PT.1", "parent_bsuid": "PT.ENT.1", "username": "marta.reis", "name": "Marta", "email": nil,
	} {
		require.Equal(t, want, contact[field], field)
	}
	require.Equal(t, []map[string]any{
		{"type": "contact.created", "created_at": n.now(), "data": map[string]any{"contact": n.inEvents(contact)}},
	}, since(t, n.s, n.Client, 0))

	again := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1", Name: "Somebody else"}, contacts.Sighting{ParentBSUID: "PT.ENT.1"})
	require.Equal(t, found[0].ID, again[0].ID)
	require.Equal(t, found[0].ID, again[1].ID)
	require.Equal(t, contact, n.contact(t, found[0].ID), "a name of the provider is only used when the contact has none")
	n.seen(t, contacts.Sighting{BSUID: "PT.1", Username: "other"})
	require.Equal(t, "other", n.contact(t, found[0].ID)["username"])
	require.Len(t, deliveredEvents(t, n.s, n.Client), 1, "a changed username alone records no event")

	made := n.Post(t, n.path+"/contacts", `{"phone_number":"+5531987654321"}`).Data(t)
	named := n.seen(t, contacts.Sighting{PhoneNumber: "+553187654321", BSUID: "BR.1", Name: "Rui"})
	require.Equal(t, made["id"], named[0].ID.String(), "without the ninth digit")
	contact = n.contact(t, named[0].ID)
	require.Equal(t, "+5531987654321", contact["phone_number"], "unchanged")
	require.Equal(t, "BR.1", contact["bsuid"])
	require.Equal(t, []map[string]any{{"type": "contact.updated", "created_at": n.now(), "data": map[string]any{
		"contact": n.inEvents(contact), "changed_fields": []any{"name"},
	}}}, since(t, n.s, n.Client, 2), "a BSUID where none was known is no change of identity")
}

func TestContacts_IdentifierChanged_SameContact(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	found := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1", ParentBSUID: "PT.ENT.1", Username: "marta.reis"})
	thread := n.received(t, found[0].ID, n.s.Clock.Now())
	conversation := n.Get(t, n.path+"/conversations/"+thread.ID.String()).Data(t)
	change := contacts.Sighting{PhoneNumber: "+351910000009", BSUID: "PT.2", ParentBSUID: "PT.ENT.2", Former: &contacts.Former{
		PhoneNumber: "+351910000001", BSUID: "PT.1", ParentBSUID: "PT.ENT.1", Reason: "user_changed_number",
	}}
	moved := n.seen(t, change)
	require.Equal(t, found[0].ID, moved[0].ID)
	contact := n.contact(t, found[0].ID)
	require.Equal(t, []any{"+351910000009", "PT.2", "PT.ENT.2", "marta.reis"},
		[]any{contact["phone_number"], contact["bsuid"], contact["parent_bsuid"], contact["username"]})
	require.Equal(t, []map[string]any{n.identityUpdated(contact, map[string]any{
		"phone_number": "+351910000001", "bsuid": "PT.1", "parent_bsuid": "PT.ENT.1", "username": "marta.reis",
	}, "user_changed_number", "phone_number", "bsuid", "parent_bsuid")}, since(t, n.s, n.Client, 1))
	conversation["contact"].(map[string]any)["phone_number"], conversation["updated_at"] = "+351910000009", n.now()
	require.Equal(t, conversation, n.Get(t, n.path+"/conversations/"+thread.ID.String()).Data(t), "the same conversation, with the new number")

	n.seen(t, change)
	late := n.seen(t, contacts.Sighting{At: found[0].ID.CreatedAt(), PhoneNumber: "+351910000001", BSUID: "PT.1"})
	require.Equal(t, found[0].ID, late[0].ID, "a message from before the change that arrives after it")
	require.Equal(t, contact, n.contact(t, found[0].ID))
	require.Len(t, deliveredEvents(t, n.s, n.Client), 2, "a repeated notification records one event")

	n.seen(t, contacts.Sighting{BSUID: "PT.3", Former: &contacts.Former{BSUID: "PT.2", Reason: "user_changed_user_id"}})
	contact = n.contact(t, found[0].ID)
	require.Equal(t, []any{"+351910000009", "PT.3"}, []any{contact["phone_number"], contact["bsuid"]})
	require.Equal(t, []map[string]any{n.identityUpdated(contact, map[string]any{
		"phone_number": "+351910000009", "bsuid": "PT.2", "parent_bsuid": "PT.ENT.2", "username": "marta.reis",
	}, "user_changed_user_id", "bsuid")}, since(t, n.s, n.Client, 2))
	for _, address := range []contacts.Sighting{{BSUID: "PT.1"}, {BSUID: "PT.2"}, {ParentBSUID: "PT.ENT.1"}, {PhoneNumber: "+351910000009"}} {
		address.Addressed = true
		require.Equal(t, found[0].ID, n.seen(t, address)[0].ID, "a former BSUID still finds the contact")
	}
	require.Equal(t, contact, n.contact(t, found[0].ID), "and does not change the contact")
	require.Len(t, deliveredEvents(t, n.s, n.Client), 3)
	for filter, ids := range map[string][]string{
		"phone_number=351910000009": {found[0].ID.String()}, "phone_number=351910000001": {}, "bsuid=PT.3": {found[0].ID.String()}, "bsuid=PT.1": {},
	} {
		require.Equal(t, ids, walk(t, n.Client, n.path+"/contacts?limit=9&"+filter), filter)
	}
	requireRefusal(t, refusal{409, "conflict", "already_exists", "bsuid"}, n.Post(t, n.path+"/contacts", `{"bsuid":"PT.1"}`))
	fresh := n.Post(t, n.path+"/contacts", `{"phone_number":"+351910000001"}`)
	require.Equal(t, 201, fresh.Status, "a former number can be used again")
	written := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000007", Addressed: true})
	require.Equal(t, "+351910000007", n.contact(t, written[0].ID)["phone_number"], "a contact that was written to first has the number that was used")
}

func TestContacts_NumberReassigned_NewContact(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	first := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1"})[0]
	second := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.2"})[0]
	require.NotEqual(t, first.ID, second.ID, "two BSUIDs are two persons")
	contact := n.contact(t, first.ID)
	require.Nil(t, contact["phone_number"])
	require.Equal(t, "+351910000001", n.contact(t, second.ID)["phone_number"])
	events := since(t, n.s, n.Client, 1)
	require.Len(t, events, 2)
	require.Equal(t, "contact.created", events[0]["type"])
	require.Equal(t, n.identityUpdated(contact, map[string]any{
		"phone_number": "+351910000001", "bsuid": "PT.1", "parent_bsuid": nil, "username": nil,
	}, "number_reassigned", "phone_number"), events[1])

	n.seen(t, contacts.Sighting{BSUID: "PT.1", PhoneNumber: "+351910000002"})
	require.Empty(t, since(t, n.s, n.Client, 3), "adding a missing number is no change of identity")
	n.seen(t, contacts.Sighting{BSUID: "PT.1", PhoneNumber: "+351910000003"})
	require.Equal(t, []map[string]any{n.identityUpdated(n.contact(t, first.ID), map[string]any{
		"phone_number": "+351910000002", "bsuid": "PT.1", "parent_bsuid": nil, "username": nil,
	}, "number_changed", "phone_number")}, since(t, n.s, n.Client, 3))
}

// TestContacts_SamePerson_AreMerged: a sighting shows that two contacts are one person. They and their
// conversations are merged, and the old ids answer with the merged ones.
func TestContacts_SamePerson_AreMerged(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.s.Work(t)
	label, other := n.s.Label(t, n.Org), n.s.Label(t, n.Org)
	byNumber := n.Post(t, n.path+"/contacts", `{"phone_number":"+351910000001","name":"Marta","marketing":"opted_out"}`).Data(t)
	byBSUID := n.seen(t, contacts.Sighting{BSUID: "PT.1", Username: "marta.reis", Name: "M"})[0]
	bulk := func(label any, ids ...any) {
		require.Equal(t, 200, n.Post(t, n.path+"/contacts/bulk_label", map[string]any{"contact_ids": ids, "label_id": label, "operation": "attach"}).Status)
	}
	bulk(label.ID, byNumber["id"], byBSUID.ID)
	bulk(other.ID, byBSUID.ID)
	n.Do(t, "PATCH", n.path+"/contacts/"+byBSUID.ID.String(), `{"email":"marta@example.com"}`)
	first := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001"})[0]
	kept := n.received(t, first.ID, n.s.Clock.Now())
	n.s.Clock.Move(time.Second)
	joined := n.received(t, byBSUID.ID, n.s.Clock.Now())
	last := n.now()
	require.Equal(t, 200, n.Do(t, "PATCH", n.path+"/conversations/"+kept.ID.String(), `{"status":"resolved"}`).Status)
	require.Equal(t, 200, n.Post(t, n.path+"/conversations/"+joined.ID.String()+"/labels", map[string]any{"label_id": label.ID}).Status)
	eventCount := len(deliveredEvents(t, n.s, n.Client))

	found := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1"})[0]
	require.Equal(t, byNumber["id"], found.ID.String(), "the one that was there first")
	contact := n.contact(t, found.ID)
	require.Equal(t, contact, n.contact(t, byBSUID.ID), "its other name")
	require.Equal(t, []any{"+351910000001", "PT.1", "marta.reis", "Marta", "marta@example.com", 2},
		[]any{contact["phone_number"], contact["bsuid"], contact["username"], contact["name"], contact["email"], len(contact["labels"].([]any))})
	require.Equal(t, "opted_out", contact["marketing"].(map[string]any)["state"])
	require.Equal(t, []map[string]any{
		n.identityUpdated(contact, map[string]any{
			"phone_number": "+351910000001", "bsuid": nil, "parent_bsuid": nil, "username": nil,
		}, "linked", "bsuid", "username"),
		{"type": "contact.updated", "created_at": n.now(), "data": map[string]any{
			"contact": n.inEvents(contact), "changed_fields": []any{"email", "labels"},
		}},
	}, since(t, n.s, n.Client, eventCount))

	conversation := n.Get(t, n.path+"/conversations/"+kept.ID.String()).Data(t)
	require.Equal(t, conversation, n.Get(t, n.path+"/conversations/"+joined.ID.String()).Data(t), "its other name")
	require.Equal(t, []any{"open", 2.0, last, 1, found.ID.String()}, []any{
		conversation["status"], conversation["unread_count"], conversation["last_message_at"], len(conversation["labels"].([]any)),
		conversation["contact"].(map[string]any)["id"],
	})
	for _, query := range []string{"", "contact_id=" + found.ID.String(), "contact_id=" + byBSUID.ID.String()} {
		require.Equal(t, []string{kept.ID.String()}, walk(t, n.Client, n.path+"/conversations?limit=9&"+query))
	}
	require.Equal(t, []string{found.ID.String()}, walk(t, n.Client, n.path+"/contacts?limit=9"))
	require.Equal(t, map[string]any{"requested": 3.0, "detached": 1.0, "unchanged": 1.0, "skipped_cross_org": 1.0},
		n.Post(t, n.path+"/contacts/bulk_label", map[string]any{
			"contact_ids": []any{byBSUID.ID, found.ID, unknown(found.ID.String())}, "label_id": label.ID, "operation": "detach",
		}).Data(t))

	require.Equal(t, found.ID.String(), n.Do(t, "DELETE", n.path+"/contacts/"+byBSUID.ID.String(), nil).Data(t)["id"], "the person is deleted")
	for _, path := range []string{"/contacts/" + found.ID.String(), "/contacts/" + byBSUID.ID.String(), "/conversations/" + kept.ID.String(), "/conversations/" + joined.ID.String()} {
		require.Equal(t, 404, n.Get(t, n.path+path).Status, path)
	}
	require.Eventually(t, func() bool {
		left, err := postgres.One[int](t.Context(), n.s.DB.Of(n.Org), `
SELECT (SELECT count(*) FROM contacts WHERE org_id = @org_id) + (SELECT count(*) FROM conversations WHERE org_id = @org_id)
     + (SELECT count(*) FROM contact_keys WHERE org_id = @org_id)`, nil)
		return err == nil && left == 0
	}, 3*time.Minute, 20*time.Millisecond, "nothing is left of the person")
}
