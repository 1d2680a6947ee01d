package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

// failedLater are codes of the provider that come in a callback, after it accepted the message, and the code of the message.
func failedLater() map[int]string {
	return map[int]string{
		131047: "outside_24h_window", 131050: "marketing_blocked_by_user", 131026: "recipient_unavailable",
		131051: "unsupported_message_type", 131042: "account_restricted", 131031: "account_locked", 131005: "permission_revoked",
		4: "app_rate_limited", 130429: "account_rate_limited", 132001: "template_not_found", 132015: "template_paused",
		132007: "template_policy_violation", 132068: "flow_blocked", 131053: "media_upload_failed", 131052: "media_download_failed",
		131049: "undeliverable", 130497: "policy_violation", 131000: "upstream_error",
	}
}

// TestMessages_FailedByCallback_EachCode: a message that the provider accepts and then reports as failed has the code and the
// provider's own in its resource, and the event has the provider's.
func TestMessages_FailedByCallback_EachCode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, ready := develop(t, f.missingDatabase(t))
	settings := proc.Settings{"PARLEY_URL": ready["base_url"], "PARLEY_KEY": ready["api_key"]}
	events := f.listen(t, settings, "--events", "message.status")
	caller := &client{base: ready["base_url"], key: ready["api_key"], http: newHTTP()}
	messages := "/" + ready["phone_number_id"] + "/messages"
	sent := map[int]string{}
	for code := range failedLater() {
		answer, err := caller.once(t.Context(), call{method: http.MethodPost, path: messages, body: fmt.Sprintf(
			`{"messaging_product":"chat","to":"+15552%06d","type":"text","text":{"body":"Hello"}}`, code)})
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, answer.status, "%s", answer.body)
		sent[code] = answer.data(t)["id"].(string)
	}
	for code, want := range failedLater() {
		var shown map[string]any
		proc.Eventually(t, proc.Patience, fmt.Sprintf("%d fails", code), func() bool {
			answer, err := caller.get(t.Context(), messages+"/"+sent[code])
			require.NoError(t, err)
			shown = answer.data(t)
			return shown["status"] == "failed"
		})
		reason := shown["error"].(map[string]any)
		require.Equal(t, []any{want, float64(code)}, []any{reason["code"], reason["provider_code"]})
		proc.Eventually(t, proc.Patience, fmt.Sprintf("the event of %d", code), func() bool {
			return events.failed(shown["message_id"].(string)) == code
		})
	}
}
