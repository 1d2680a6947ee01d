package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// linked is an event with the ids in its columns for request, contact and resource.
type linked struct {
	Type       string
	RequestID  *apilogs.RequestID
	ContactID  *contacts.ID
	ResourceID *customers.ID
}

// requestOf is the request id of an answer.
func requestOf(t *testing.T, answer apitest.Answer) *apilogs.RequestID {
	t.Helper()
	var id apilogs.RequestID
	require.NoError(t, id.UnmarshalText([]byte(answer.Header.Get("X-Request-Id"))))
	return &id
}

// An event has the ids of the request that caused it, of its contact and of its resource.
func TestEvents_Recorded_HaveRequestContactAndResource(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	customer := n.Post(t, "/customers", `{"name":"Bay Bakery"}`)
	require.Equal(t, 201, customer.Status)
	n.s.Clock.Move(time.Millisecond)
	contact := n.Post(t, n.path+"/contacts", `{"phone_number":"+351911000111"}`)
	require.Equal(t, 201, contact.Status)
	var customerID customers.ID
	require.NoError(t, customerID.UnmarshalText([]byte(customer.Data(t)["id"].(string))))
	var contactID contacts.ID
	require.NoError(t, contactID.UnmarshalText([]byte(contact.Data(t)["id"].(string))))
	thread := n.received(t, contactID, n.s.Clock.Now())
	n.s.Clock.Move(time.Millisecond)
	closed := n.Do(t, "PATCH", n.path+"/conversations/"+thread.ID.String(), `{"status":"`+string(conversations.Resolved)+`"}`)
	require.Equal(t, 200, closed.Status)
	n.s.Clock.Move(time.Millisecond)
	n.s.Customer(t, n.Org) // outside of any request

	events, err := postgres.Many[linked](t.Context(), n.s.DB.Of(n.Org), `
SELECT type, request_id, contact_id, CASE WHEN type = 'customer.created' THEN resource_id END AS resource_id
FROM events WHERE org_id = @org_id ORDER BY id`, nil)
	require.NoError(t, err)
	require.Len(t, events, 4)
	require.Nil(t, events[3].RequestID)
	require.Equal(t, []linked{
		{Type: "customer.created", RequestID: requestOf(t, customer), ResourceID: &customerID},
		{Type: "contact.created", RequestID: requestOf(t, contact), ContactID: &contactID},
		{Type: "conversation.closed", RequestID: requestOf(t, closed), ContactID: &contactID},
	}, events[:3])
	resource, err := postgres.One[conversations.ID](t.Context(), n.s.DB.Of(n.Org), `
SELECT resource_id FROM events WHERE org_id = @org_id AND type = 'conversation.closed'`, nil)
	require.NoError(t, err)
	require.Equal(t, thread.ID, resource)
}
