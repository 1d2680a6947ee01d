package openapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/openapi"
)

// These tests compare the contract with the specification: what it names must be there as it is named. The contract may
// add fields. docs/conformance.md lists which rule each test proves.

// specifiedFields has the fields of each object with their JSON types; a field with `?` may be absent, `@` is a date-time.
func specifiedFields() map[string]string {
	return map[string]string{
		"Message": `id object to|null bsuid|null parent_bsuid|null username|null type status created_at@ played_at@? conversation_id
			message_id? reaction:object? unsupported:object? error:object? is_revoked:boolean?`,
		"MessageReaction":     `message_id emoji`,
		"MessageUnsupported":  `type`,
		"MessageError":        `code message provider_code:integer|null`,
		"ChatAccount":         `phone_number|null phone_number_id|null customer:object|null`,
		"ChatAccountCustomer": `id name`,
		"Account":             `id object phone_number_id|null phone_number|null name|null status provider_status|null customer_id|null`,
		"NumberRegistration":  `object phone_number_id registered:boolean status provider_status|null`,
		"Template": `id object name language status category|null content variables:array components:array chat_account:object
			provider_template_id|null created_at@ updated_at@`,
		"Conversation": `id object status contact:object chat_account:object assignee:object|null unread_count:integer last_message_at@|null
			last_inbound_at@|null created_at@ updated_at@`,
		"ConversationContact":  `id phone_number|null name|null`,
		"ConversationAssignee": `id name|null email|null`,
		"Contact": `id object phone_number|null bsuid|null parent_bsuid|null username|null name|null email|null metadata:object|null
			chat_account:object created_at@ updated_at@`,
		"Label": `id object name color team_id created_at@ updated_at@`,
		"Customer": `id object name email|null status metadata:object|null archived_at@|null team_id created_at@ updated_at@
			whatsapp_accounts:array?`,
		"CustomerAccount": `phone_number_id|null`,
		"SetupLink": `id object customer_id status token_last4 expires_at@ consumed_at@|null success_redirect_url|null
			failure_redirect_url|null created_at@ setup_url?`,
		"WebhookSubscription": `id object url description|null events:array status disabled_reason|null consecutive_failures:integer
			secrets:array phone_number_ids:array? created_at@ updated_at@ initial_secret?`,
		"SigningSecretSummary": `id created_at@ expires_at@|null`,
		"SigningSecret":        `id object secret created_at@ expires_at@|null`,
		"WebhookDelivery": `id object subscription_id event_type event_id status attempt_count:integer last_attempt_at@|null
			next_attempt_at@|null response_status:integer|null response_body_snippet|null duration_ms:integer|null replayed_from|null
			error_code? error_message? payload:any? created_at@`,
		"Error": `type code message param? request_id`,
	}
}

// kinds are the values of `object`.
func specifiedKinds() map[string]string {
	return map[string]string{
		"Message": "message", "Account": "account", "Template": "template", "Conversation": "conversation", "Contact": "contact",
		"Label": "label", "Customer": "customer", "SetupLink": "customer_setup_link", "WebhookSubscription": "webhook_subscription",
		"WebhookDelivery": "webhook_delivery", "NumberRegistration": "phone_number_registration",
	}
}

type node = map[string]any

func members(value any) node {
	found, _ := value.(node)
	return found
}

func items(value any) []any {
	found, _ := value.([]any)
	return found
}

// document is the contract as decoded JSON, and follows references.
type document struct{ root node }

func specified(t *testing.T) document {
	t.Helper()
	var d document
	require.NoError(t, json.Unmarshal(contract(t).JSON(), &d.root))
	return d
}

func (d document) follow(part any) node {
	at := members(part)
	for at["$ref"] != nil {
		target := any(d.root)
		for name := range strings.SplitSeq(strings.TrimPrefix(at["$ref"].(string), "#/"), "/") {
			target = members(target)[name]
		}
		at = members(target)
	}
	return at
}

func (d document) schema(name string) node {
	return d.follow(node{"$ref": "#/components/schemas/" + name})
}

// form writes a schema as specifiedFields does, without its name.
func (d document) form(schema any) string {
	types, stamped := d.types(schema)
	form := ""
	switch rest := slices.DeleteFunc(slices.Clone(types), func(one string) bool { return one == "null" }); {
	case len(types) == 0:
		form = ":any"
	case stamped:
		form = "@"
	case !slices.Equal(rest, []string{"string"}):
		form = ":" + strings.Join(rest, "|")
	}
	if slices.Contains(types, "null") {
		form += "|null"
	}
	return form
}

func (d document) types(schema any) (types []string, stamped bool) {
	at := d.follow(schema)
	switch given := at["type"].(type) {
	case string:
		types = []string{given}
	case []any:
		for _, one := range given {
			types = append(types, one.(string))
		}
	}
	for _, alternative := range items(at["oneOf"]) {
		more, _ := d.types(alternative)
		types = append(types, more...)
	}
	return types, at["format"] == "date-time"
}

func TestSpecification_Fields(t *testing.T) {
	t.Parallel()
	d, kinds := specified(t), specifiedKinds()
	for name, fields := range specifiedFields() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := d.schema(name)
			properties, required := members(schema["properties"]), items(schema["required"])
			for field := range strings.FieldsSeq(fields) {
				want, optional := strings.CutSuffix(field, "?")
				name := want[:strings.IndexAny(want+":", ":|@")]
				require.Contains(t, properties, name)
				require.Equal(t, want, name+d.form(properties[name]))
				require.Equal(t, !optional, slices.Contains(required, any(name)), "%s is required", name)
			}
			if kind := kinds[name]; kind != "" {
				require.Equal(t, kind, d.follow(properties["object"])["const"])
			}
		})
	}
	require.EqualValues(t, 16, members(d.schema("MessageReaction")["properties"])["emoji"].(node)["maxLength"])
	require.EqualValues(t, 0, members(d.schema("Conversation")["properties"])["unread_count"].(node)["minimum"])
	contact := members(d.schema("Contact")["properties"])
	require.Equal(t, "^[A-Z]{2}[.][A-Za-z0-9]{1,128}$", members(contact["bsuid"])["pattern"])
	require.Equal(t, "^[A-Z]{2}[.]ENT[.][A-Za-z0-9]{1,128}$", members(contact["parent_bsuid"])["pattern"])
	require.Equal(t, []any{"active", "consumed", "expired", "revoked"}, members(members(d.schema("SetupLink")["properties"])["status"])["enum"])
}

func TestSpecification_Enums(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"MessageStatus":             "queued pending sent delivered read failed",
		"AccountStatus":             "connected disconnected degraded onboarding",
		"TemplateStatus":            "pending approved rejected",
		"TemplateCategory":          "MARKETING UTILITY AUTHENTICATION",
		"ConversationStatus":        "open resolved pending",
		"LabelColor":                "gray red orange amber yellow lime green emerald teal sky blue violet pink",
		"CustomerStatus":            "pending active suspended archived",
		"WebhookSubscriptionStatus": "active paused disabled",
		"WebhookDeliveryStatus":     "pending succeeded failed dead",
		"ErrorType": "invalid_request_error authentication_error permission_error not_found conflict rate_limit_error " +
			"api_error",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, strings.Fields(values), contract(t).Enum(name))
		})
	}
}

// The set of codes of messages is open, so that the contract names the known ones as examples.
func TestSpecification_MessageCodes_AllKnown(t *testing.T) {
	t.Parallel()
	named := items(specified(t).schema("MessageErrorCode")["examples"])
	for code := range strings.FieldsSeq(`outside_24h_window marketing_opted_out marketing_blocked_by_user recipient_unavailable
		unsupported_message_type account_restricted account_locked consent_required customer_suspended permission_revoked auth_expired
		app_rate_limited account_rate_limited template_not_found template_paused template_policy_violation flow_blocked
		media_upload_failed media_download_failed undeliverable policy_violation subscription_inactive upstream_error`) {
		require.Contains(t, named, code)
	}
}

func TestSpecification_Prefixes(t *testing.T) {
	t.Parallel()
	d := specified(t)
	for name, prefix := range map[string]string{
		"MessageId": "msg_", "ConversationId": "cnv_", "ContactId": "ctc_", "LabelId": "lbl_", "CustomerId": "cus_", "SetupLinkId": "csl_",
		"TemplateId": "tmpl_", "WebhookSubscriptionId": "wbs_", "SigningSecretId": "sec_", "WebhookDeliveryId": "wbd_", "EventId": "evt_",
		"RequestId": "req_", "MediaId": "med_",
	} {
		require.Equal(t, "^"+prefix+"[0-9A-HJKMNP-TV-Z]{26}$", d.schema(name)["pattern"], name)
	}
}

func TestSpecification_Paths_NumberPattern(t *testing.T) {
	t.Parallel()
	numbers := 0
	for _, operation := range contract(t).Operations() {
		for _, parameter := range operation.PathParameters {
			if parameter.Name == "phone_number_id" {
				numbers++
				for number, fits := range map[string]bool{
					"12345": false, "123456": true, strings.Repeat("9", 20): true, strings.Repeat("9", 21): false, "12345a": false, "+123456": false,
				} {
					require.Equal(t, fits, parameter.Schema.Validate(number) == nil, "%s in %s", number, operation.ID)
				}
			}
		}
	}
	require.Positive(t, numbers)
}

func TestSpecification_SendBody_HasNoSender(t *testing.T) {
	t.Parallel()
	send, found := contract(t).Operation(http.MethodPost, "/{phone_number_id}/messages")
	require.True(t, found)
	require.False(t, send.Takes("from"))
}

// specifiedOperations are the methods of each path that the specification names.
func specifiedOperations() map[string]string {
	return map[string]string{
		"/health": "GET", "/me": "GET", "/openapi.json": "GET", "/accounts": "GET", "/{phone_number_id}/register": "POST",
		"/{phone_number_id}/messages": "GET POST", "/{phone_number_id}/messages/{id}": "GET", "/{phone_number_id}/messages/{id}/media": "GET",
		"/{phone_number_id}/templates": "GET POST", "/{phone_number_id}/templates/{name}": "GET PATCH",
		"/{phone_number_id}/templates/sync": "POST",
		"/{phone_number_id}/conversations":  "GET", "/{phone_number_id}/conversations/{id}": "GET PATCH",
		"/{phone_number_id}/conversations/{id}/labels": "POST", "/{phone_number_id}/conversations/{id}/labels/{label_id}": "DELETE",
		"/{phone_number_id}/contacts": "GET POST", "/{phone_number_id}/contacts/{id}": "GET PATCH DELETE",
		"/{phone_number_id}/contacts/{id}/labels": "POST", "/{phone_number_id}/contacts/{id}/labels/{label_id}": "DELETE",
		"/{phone_number_id}/contacts/bulk_label": "POST",
		"/labels":                                "GET POST", "/labels/{id}": "GET PATCH DELETE",
		"/customers": "GET POST", "/customers/{id}": "GET PATCH DELETE", "/customers/{id}/setup_links": "GET POST",
		"/customers/{id}/setup_links/{link_id}":               "PATCH DELETE",
		"/customers/{id}/whatsapp_accounts/{phone_number_id}": "DELETE",
		"/webhook_subscriptions":                              "GET POST", "/webhook_subscriptions/{id}": "GET PATCH DELETE",
		"/webhook_subscriptions/{id}/secrets": "POST", "/webhook_subscriptions/{id}/secrets/{secret_id}": "DELETE",
		"/webhook_deliveries": "GET", "/webhook_deliveries/{id}": "GET", "/webhook_deliveries/{id}/replay": "POST",
		"/webhook_deliveries/replay": "POST",
	}
}

func TestSpecification_Operations_AllDeclared(t *testing.T) {
	t.Parallel()
	loaded, open := contract(t), []string{}
	for path, methods := range specifiedOperations() {
		for method := range strings.FieldsSeq(methods) {
			_, found := loaded.Operation(method, path)
			require.True(t, found, "%s %s", method, path)
		}
	}
	for _, operation := range loaded.Operations() {
		if operation.Public {
			open = append(open, operation.Path)
		}
	}
	require.ElementsMatch(t, []string{"/health", "/openapi.json"}, open, "all others need a key")
}

// each calls a function with every operation that needs a key, and its description.
func (d document) each(t *testing.T, do func(operation *openapi.Operation, described node)) {
	t.Helper()
	for _, operation := range contract(t).Operations() {
		if !operation.Public {
			do(operation, members(members(members(d.root["paths"])[operation.Path])[strings.ToLower(operation.Method)]))
		}
	}
}

func TestSpecification_Answers_OneEnvelope(t *testing.T) {
	t.Parallel()
	d, lists := specified(t), 0
	d.each(t, func(operation *openapi.Operation, described node) {
		for status, response := range members(described["responses"]) {
			body := members(members(members(d.follow(response))["content"])["application/json"])["schema"]
			if body == nil {
				require.Contains(t, []string{"302", "304"}, status, operation.ID)
				continue
			}
			schema := d.follow(body)
			properties, want := members(schema["properties"]), []string{"data", "request_id"}
			if kinds, _ := d.types(properties["data"]); slices.Equal(kinds, []string{"array"}) {
				lists++
				want = []string{"data", "has_more", "next_cursor", "request_id"}
			}
			if status[0] >= '4' {
				want = []string{"error"}
			}
			for _, field := range want {
				require.Contains(t, items(schema["required"]), field, "%s, status %s", operation.ID, status)
			}
			if properties["left_out"] == nil { // a timeline says what it does not show
				require.ElementsMatch(t, want, slices.Collect(maps.Keys(properties)), "%s, status %s", operation.ID, status)
			}
		}
	})
	require.Equal(t, 12, lists)
}

func TestSpecification_Posts_TakeAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	specified(t).each(t, func(operation *openapi.Operation, _ node) {
		takes := slices.IndexFunc(operation.Headers, func(header openapi.Parameter) bool { return header.Name == "Idempotency-Key" })
		require.Equal(t, operation.Method == http.MethodPost, takes >= 0, operation.ID)
		if takes >= 0 {
			require.False(t, operation.Headers[takes].Required, operation.ID)
		}
	})
}

func TestSpecification_EveryOperation_DeclaresCommonErrors(t *testing.T) {
	t.Parallel()
	specified(t).each(t, func(operation *openapi.Operation, _ node) {
		want := []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusInternalServerError}
		if strings.Contains(operation.Path, "{") {
			want = append(want, http.StatusNotFound)
		}
		require.Subset(t, operation.Statuses(), want, operation.ID)
	})
	require.Contains(t, fault.Codes(), fault.InternalError)
}

func TestSpecification_Version(t *testing.T) {
	t.Parallel()
	d := specified(t)
	require.Equal(t, "1.0.0", members(d.root["info"])["version"])
	for _, server := range items(d.root["servers"]) {
		require.Equal(t, "{base_url}", members(server)["url"])
		require.Regexp(t, `/v1$`, members(members(members(server)["variables"])["base_url"])["default"])
	}
}
