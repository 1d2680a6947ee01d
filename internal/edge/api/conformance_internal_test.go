package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/openapi"
)

// TestStatuses_OfTheSpecification has the codes that the specification names. They never change.
func TestStatuses_OfTheSpecification(t *testing.T) {
	t.Parallel()
	specified := map[statusRow]string{
		{400, "invalid_request_error"}: `invalid_phone_number invalid_template_name missing_required_field invalid_field_value invalid_limit
			invalid_cursor invalid_webhook_url invalid_event_type`,
		{401, "authentication_error"}: `missing_api_key invalid_api_key revoked_api_key expired_api_key`,
		{402, "permission_error"}:     `subscription_inactive quota_exceeded feature_not_entitled`,
		{403, "permission_error"}:     `feature_not_available organization_suspended`,
		{404, "not_found"}:            `resource_not_found`,
		{409, "conflict"}:             `idempotency_in_progress webhook_subscription_disabled setup_link_inactive registration_in_progress`,
		{422, "invalid_request_error"}: `idempotency_key_reuse whatsapp_number_not_verified whatsapp_registration_failed cannot_revoke_last_secret
			media_not_found marketing_opted_out account_restricted consent_required customer_suspended upstream_error`,
		{429, "rate_limit_error"}: `rate_limit_exceeded`,
		{500, "api_error"}:        `internal_error`,
		{502, "api_error"}:        `whatsapp_upstream_error`,
		{503, "api_error"}:        `service_unavailable`,
	}
	for row, codes := range specified {
		for code := range strings.FieldsSeq(codes) {
			require.Equal(t, row, statuses[fault.Code(code)], code)
		}
	}
}

// TestConformance_Unserved_NotImplemented takes an operation away, as a version that does not serve it would.
func TestConformance_Unserved_NotImplemented(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	require.Empty(t, s.api.unserved())
	s.api.served = s.api.served[1:]
	missing := s.api.unserved()
	require.Len(t, missing, 1)
	answer := s.post(t.Context(), missing[0].handler, "k")
	require.Equal(t, http.StatusNotImplemented, answer.Code)
	require.Contains(t, answer.Body.String(), `"type":"api_error","code":"not_implemented"`)
	document, err := s.api.Contract.Serving(s.api.served, "https://api.parley.test/v1")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(document), `"x-served":false`))
}

func TestConformance_Lists_TwoSeconds(t *testing.T) {
	t.Parallel()
	s, found := newFixture(t), 0
	for _, route := range s.api.routes() {
		operation, declared := s.api.Contract.Operation(route.method, route.path)
		require.True(t, declared, route.path)
		if slices.ContainsFunc(operation.Query, func(one openapi.Parameter) bool { return one.Name == "cursor" }) {
			found++
			require.Equal(t, 2*time.Second, route.timeout(), route.path)
		}
	}
	require.Equal(t, 12, found)
	s.post(t.Context(), func(c *call) (reply, error) {
		_, limited := c.ctx().Deadline()
		require.True(t, limited, "statements end with the request")
		return c.answer(http.StatusOK, "done"), nil
	}, "k")
}
