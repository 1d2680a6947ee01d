package api

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/openapi"
)

// advice is a row of docs/errors.md: what a code means, whether the same request can succeed later, and what to do.
type advice struct{ cause, again, do string }

const (
	no    = "no"
	later = "yes, after `Retry-After`"
)

// httpAdvice is about the codes of answers.
func httpAdvice() map[fault.Code]advice {
	return map[fault.Code]advice{
		fault.InvalidPhoneNumber:    {"`to` is not a number in E.164.", no, "Send it with its country code, for example `+14155550101`."},
		fault.InvalidTemplateName:   {"The number has no template of that name and language.", no, "List the templates, or sync them if you made one elsewhere."},
		fault.MissingRequiredField:  {"A required field is absent.", no, "Add the field that `param` names."},
		fault.InvalidFieldValue:     {"A field breaks its rule, or is unknown.", no, "Correct the field that `param` names; the message says what is accepted."},
		fault.InvalidLimit:          {"`limit` is not 1 to 100.", no, "Use a number from 1 to 100."},
		fault.InvalidCursor:         {"`cursor` is not one of ours, or belongs to other filters.", no, "Pass `next_cursor` unchanged, with the same filters; or start without a cursor."},
		fault.InvalidWebhookURL:     {"The URL is not https, or does not lead to a public address.", no, "Use a public https URL."},
		fault.InvalidEventType:      {"There is no event of that name.", no, "Choose from the events in the contract."},
		fault.MissingAPIKey:         {"The request has no Authorization header.", no, "Send `Authorization: Bearer svc_live_…`."},
		fault.InvalidAPIKey:         {"The key does not exist or is malformed.", no, "Check that the whole key is sent, without quotes or blanks."},
		fault.RevokedAPIKey:         {"The key was revoked.", no, "Use another key."},
		fault.ExpiredAPIKey:         {"The key's `expires_at` has passed.", no, "Use another key."},
		fault.SubscriptionInactive:  {"The trial or the subscription has ended. Reads still work.", "once it is active", "Renew the subscription."},
		fault.QuotaExceeded:         {"The month's messages are used up.", "next month, or on a larger plan", "`GET /me` shows the quota and when it resets."},
		fault.FeatureNotEntitled:    {"The plan does not include the feature.", "on another plan", "Change the plan."},
		fault.FeatureNotAvailable:   {"The plan has no API access.", "on another plan", "Change the plan."},
		fault.OrganizationSuspended: {"The organization is suspended.", "once it is resumed", "Write to support."},
		fault.ResourceNotFound:      {"The resource does not exist, was deleted, or belongs to another organization.", no, "Check the id, and which organization the key belongs to."},
		fault.IdempotencyInProgress: {"The same request with the same Idempotency-Key is still running.", "yes, in a second", "Wait, then repeat the request with the same key: you get its answer."},
		fault.WebhookSubscriptionDisabled: {
			"The subscription was disabled after many failures.", "once it is enabled", "Mend the endpoint, then PATCH the subscription with `status: active`.",
		},
		fault.SetupLinkInactive:      {"The link was used, revoked or has expired.", no, "Create another link."},
		fault.RegistrationInProgress: {"A registration of the number is running.", "yes, in a minute", "Wait for it, then look at the account."},
		fault.IdempotencyKeyReuse:    {"The key was used with another method, path or body.", no, "Use a new key for each new request."},
		fault.NumberNotVerified:      {"The network has not verified the number yet.", "once it is verified", "Verify it in the business account, then register it."},
		fault.RegistrationFailed:     {"The network refused the PIN or the registration.", "with another PIN", "Read the message: a wrong PIN, or too many tries."},
		fault.CannotRevokeLastSecret: {"It is the only secret that does not expire.", no, "Mint another secret first."},
		fault.MediaNotFound:          {"The library file does not exist, was deleted, or belongs to another team.", no, "Upload the file again, and use its new id."},
		fault.MarketingOptedOut:      {"The recipient does not want marketing.", no, "Send no marketing template. Other messages are allowed."},
		fault.AccountRestricted:      {"The network restricts the number.", "once it is lifted", "See the restriction in the business account."},
		fault.ConsentRequired:        {"The recipient never wrote and has not opted in.", "once there is consent", "Ask for consent, then set `marketing: opted_in` on the contact."},
		fault.CustomerSuspended:      {"The customer that owns the number is suspended or archived.", "once it is active", "PATCH the customer with `status: active`, or restore it."},
		fault.UpstreamError:          {"The number is not connected, or the network does not let us act for it.", "once it is connected", "See `status_reason` of the account; connect it again."},
		fault.RateLimitExceeded:      {"Requests come faster than the plan allows.", later, "Slow down; `RateLimit-*` headers say how much is left."},
		fault.InternalError:          {"A fault of ours.", "yes, with the same Idempotency-Key", "If it stays, send the `request_id` to support."},
		fault.ProviderUpstreamError:  {"The network answered with an error or not at all.", "yes, with backoff and the same Idempotency-Key", "Repeat it: Parley asks the network what happened first."},
		fault.ServiceUnavailable:     {"Overload, maintenance, or the organization is being moved.", later, "Repeat the request with the same Idempotency-Key."},
		fault.NotImplemented:         {"This version does not serve the operation.", no, "See `x-served` in /v1/openapi.json."},
		fault.MethodNotAllowed:       {"The path exists, but not with this method.", no, "`Allow` lists the methods."},
		fault.RequestTooLarge:        {"The body is larger than allowed.", no, "JSON has at most 1 MiB, a file what its type allows."},
		fault.UnsupportedMediaType:   {"The body is not JSON in UTF-8, or is compressed.", no, "Send `Content-Type: application/json`, uncompressed."},
		fault.HeadersTooLarge:        {"Path and headers have more than 16 KiB.", no, "Send fewer or shorter headers."},
		fault.AlreadyExists:          {"There is one of that name or number already.", no, "Use the one whose id the message names."},
		fault.CustomerArchived:       {"The customer is archived.", "once it is restored", "Restore the customer first."},
		fault.LimitReached:           {"There are as many as there may be.", "once there are fewer", "Delete one first."},
	}
}

// messageAdvice is about the codes of `error` on a message, and of message.status.
func messageAdvice() map[fault.Code]advice {
	const retried = "no: Parley has retried it for about 15 minutes"
	return map[fault.Code]advice{
		provider.OutsideWindow:           {"The recipient has not written for 24 hours.", no, "Send a template."},
		provider.MarketingBlockedByUser:  {"The recipient has blocked marketing of this business.", no, "Do not send marketing to this person."},
		provider.RecipientUnavailable:    {"The number is not on the network, or cannot receive.", no, "Check the number."},
		provider.UnsupportedMessageType:  {"The recipient's app cannot show this type.", no, "Send another type."},
		provider.AccountLocked:           {"The network has locked the business account.", "once it is unlocked", "See the business account."},
		provider.PermissionRevoked:       {"The business has withdrawn our access.", "once it is connected again", "Connect the number again."},
		provider.AuthExpired:             {"The access token has expired.", "once it is connected again", "Connect the number again."},
		provider.AppRateLimited:          {"The network limits the app as a whole.", retried, "Send more slowly."},
		provider.AccountRateLimited:      {"The network limits the number or the business account.", retried, "Send more slowly."},
		provider.TemplateNotFound:        {"The network does not have the template in that language.", no, "Sync the templates."},
		provider.TemplatePaused:          {"The network has paused or disabled the template.", "once it is active again", "Improve the template: it got bad feedback."},
		provider.TemplatePolicyViolation: {"The template's content breaks the network's policy.", no, "Change the template."},
		provider.FlowBlocked:             {"The flow is blocked or throttled.", "once it is published and healthy", "See the flow in the business account."},
		provider.MediaUploadFailed:       {"The file could not be handed to the network.", no, "Check its type and size, and that the link is public."},
		provider.MediaDownloadFailed:     {"The network could not read the file at the link, or an inbound file could not be stored.", no, "Check that the link is public and answers quickly."},
		provider.Undeliverable:           {"The network could not deliver the message.", no, "Try another message later; the network gives no reason."},
		provider.PolicyViolation:         {"The message or the account breaks the network's policy.", no, "See the business account."},
		fault.MarketingOptedOut:          {"The recipient opted out before the message went out.", no, "Send no marketing template."},
		fault.AccountRestricted:          {"The network restricts the number.", "once it is lifted", "See the business account."},
		fault.ConsentRequired:            {"There was no consent when the message went out.", "once there is consent", "Ask for consent."},
		fault.CustomerSuspended:          {"The customer was suspended before the message went out.", "once it is active", "Send it again then."},
		fault.OrganizationSuspended:      {"The organization was suspended before the message went out.", "once it is resumed", "Send it again then."},
		fault.SubscriptionInactive:       {"The subscription lapsed before the message went out.", "once it is active", "Send it again then."},
		fault.UpstreamError:              {"The network failed, or the number was disconnected; or the outcome stayed unknown.", retried, "See the timeline of the message before you send it again."},
	}
}

// TestErrors_Guide_UpToDate makes docs/errors.md. `make errors` writes it.
func TestErrors_Guide_UpToDate(t *testing.T) {
	t.Parallel()
	contract, err := openapi.Load()
	require.NoError(t, err)
	guide := "# Errors\n\nMade by `make errors` from the codes of the product; do not edit it. Branch on `code`: a code never changes its meaning,\n" +
		"a message may. `param` names the field.\n\n## Answers\n\n| HTTP | type | code | Cause | Can the same request succeed? | What to do |\n|---|---|---|---|---|---|\n"
	for _, code := range fault.Codes() {
		row, known := httpAdvice()[code]
		require.True(t, known, "%s has no advice", code)
		status := statusOf(code)
		guide += fmt.Sprintf("| %d | `%s` | `%s` | %s | %s | %s |\n", status.status, status.kind, code, row.cause, row.again, row.do)
	}
	guide += "\n## Messages\n\nThe codes of `error` on a message that failed, and of its `message.status` event. `provider_code` is the network's own number; -1 in\n" +
		"an event means that Parley refused. `POST …/messages/validate` tells many of them before ([validate.md](validate.md)).\n\n" +
		"| code | Cause | Can the same message succeed? | What to do |\n|---|---|---|---|\n"
	said := string(contract.JSON())
	for _, code := range append(provider.Codes(), fault.MarketingOptedOut, fault.AccountRestricted, fault.ConsentRequired, fault.CustomerSuspended,
		fault.OrganizationSuspended, fault.SubscriptionInactive, fault.UpstreamError) {
		row, known := messageAdvice()[code]
		require.True(t, known, "%s has no advice", code)
		guide += fmt.Sprintf("| `%s` | %s | %s | %s |\n", code, row.cause, row.again, row.do)
		if code != fault.OrganizationSuspended { // decided later than the specification
			require.Contains(t, said, string(code))
		}
	}
	guide += "\n## Webhook deliveries\n\n`error_code` of a delivery that failed. Parley tries again by itself, ten times in about 28 hours; a dead one can be replayed.\n\n" +
		"| code | Cause | What to do |\n|---|---|---|\n"
	for _, row := range [][3]string{
		{"dns", "The host name could not be resolved.", "Check the name."},
		{"connect", "No connection, or it broke before the answer.", "Check that the endpoint runs and can be reached from the internet."},
		{"tls", "No secure connection.", "Use a certificate that is valid for the name, and TLS 1.2 or newer."},
		{"timeout", "No complete answer in 10 seconds.", "Answer first, then work."},
		{"blocked_address", "The URL does not lead to a public address.", "Use a public address."},
		{"redirect", "The endpoint redirects.", "Subscribe the final URL: redirects are not followed."},
		{"response_too_large", "The answer is larger than 1 MiB.", "Answer with an empty body."},
		{"status", "The endpoint answered, but not with 2xx.", "See `response_status` and `response_body_snippet`."},
		{"discarded", "It waited when the subscription was resumed with `backlog: discard`.", "Replay it if you want it after all."},
		{"internal", "A fault of ours.", "Replay it; write to support if it stays."},
	} {
		require.Contains(t, contract.Enum("WebhookDeliveryErrorCode"), row[0])
		guide += fmt.Sprintf("| `%s` | %s | %s |\n", row[0], row[1], row[2])
	}
	const path = "../../../docs/errors.md"
	if os.Getenv("PARLEY_WRITE_DOCS") != "" {
		require.NoError(t, os.WriteFile(path, []byte(guide), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Split(guide, "\n"), strings.Split(string(written), "\n"), "run `make errors`")
}
