package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/openapi"
)

// notServedYet are the operations without a handler. A route that gets a handler must be removed from
// this list.
func notServedYet() []string {
	return []string{}
}

func TestContract_Routes_AllServedOrListed(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	var served, declared []string
	for _, operation := range s.API.Served() {
		served = append(served, operation.ID)
	}
	for _, operation := range s.Contract.Operations() {
		declared = append(declared, operation.ID)
	}
	require.ElementsMatch(t, declared, slices.Concat(served, notServedYet()))
}

func TestContract_Codes_EqualThoseOfFault(t *testing.T) {
	t.Parallel()
	contract, err := openapi.Load()
	require.NoError(t, err)
	var codes []string
	for _, code := range fault.Codes() {
		codes = append(codes, string(code))
	}
	require.ElementsMatch(t, codes, contract.Enum("ErrorCode"))
}

func TestContract_Events_EqualThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	contract, err := openapi.Load()
	require.NoError(t, err)
	sixteen := []string{
		"message.received", "message.status", "message.sent", "message.revoked", "message.edited",
		"conversation.assigned", "conversation.closed",
		"contact.created", "contact.updated", "contact.identity_updated",
		"customer.created", "customer.updated", "customer.archived", "customer.onboarded",
		"customer.setup_link.created", "customer.setup_link.consumed",
	}
	require.Equal(t, sixteen, contract.Webhooks())
	require.ElementsMatch(t, sixteen, contract.Enum("EventType"))
}

// TestContract_EmptyPatch_NamesTheFirstField sends `{}` to every PATCH.
func TestContract_EmptyPatch_NamesTheFirstField(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	ids := owned(t, client)
	first := map[string]string{
		"updateLabel": "name", "updateContact": "name", "updateCustomer": "name", "updateConversation": "status", "updateTemplate": "components",
		"updateSetupLink": "success_redirect_url", "updateSubscription": "url",
	}
	for _, operation := range s.API.Served() {
		if operation.Method != http.MethodPatch {
			continue
		}
		item, _, _ := strings.Cut(operation.Path, "{id}")
		path := strings.NewReplacer("{phone_number_id}", ids["{phone_number_id}"], "{id}", ids[item+"{id}"], "{link_id}", ids["{link_id}"],
			"{name}", "hello_world").Replace(operation.Path)
		answer := client.Do(t, http.MethodPatch, path, `{}`)
		requireRefused(t, answer, 400, "missing_required_field", first[operation.ID])
		delete(first, operation.ID)
	}
	require.Empty(t, first, "operations that are not served")
}
