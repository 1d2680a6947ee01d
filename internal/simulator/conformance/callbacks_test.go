package conformance_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func file(more fields) shape {
	return fields{"mime_type": match(`[a-z]+/.+`), "sha256": base64, "id": decimal, "url": https}.and(more).shape
}

// Section 3.2.
func TestCallbacks_InboundOfEveryType_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, sent := f.call(http.MethodPost, "/v24.0/"+sendPath, send("text", object{"body": "Hi"}))
	id := sent["messages"].([]any)[0].(object)["id"]
	f.statuses(anything, "sent", "delivered", "read")
	reply := fields{"context": fields{"from": digits, "id": wamid}.shape}
	card := fields{"name": anything, "phones": anything, "vcard?": text}.shape
	unsupported := fields{"errors": list(fields{
		"code": exactly(131051), "title": text, "message": text, "error_data": details, "href?": https,
	}.shape)}
	for name, row := range map[string]struct {
		given object
		want  shape
	}{
		"text":        {object{"type": "text", "text": object{"body": "Olá 🌞"}}, messages("text", fields{"body": one("Olá 🌞")}.shape, nil)},
		"reply":       {object{"type": "text", "context": object{"id": id}}, messages("text", fields{"body": text}.shape, reply)},
		"forwarded":   {object{"type": "text", "context": object{"forwarded": true}}, messages("text", anything, fields{"context": fields{"forwarded": boolean}.shape})},
		"referral":    {object{"type": "text", "referral": object{"source_url": "https://fb.me/x", "source_id": "1", "source_type": "ad", "ctwa_clid": "x"}}, messages("text", anything, fields{"referral": fields{"source_url": https, "source_id": text, "source_type": text, "ctwa_clid": text}.shape})},
		"image":       {object{"type": "image", "image": object{"caption": "c"}}, messages("image", file(fields{"caption": one("c")}), nil)},
		"image, old":  {object{"type": "image", "image": object{"url": nil}}, messages("image", fields{"mime_type": text, "sha256": base64, "id": decimal}.shape, nil)},
		"video":       {object{"type": "video"}, messages("video", file(nil), nil)},
		"document":    {object{"type": "document"}, messages("document", file(fields{"filename": text}), nil)},
		"audio":       {object{"type": "audio", "audio": object{"voice": true}}, messages("audio", file(fields{"voice": boolean}), nil)},
		"sticker":     {object{"type": "sticker"}, messages("sticker", file(fields{"animated": boolean}), nil)},
		"bad media":   {object{"type": "image", "errors": []any{object{"code": 131052, "title": "t", "message": "t", "error_data": object{"details": "d"}}}}, messages("image", anything, fields{"errors": list(callbackError)})},
		"location":    {object{"type": "location"}, messages("location", fields{"latitude": number, "longitude": number, "name?": text, "address?": text, "url?": https}.shape, nil)},
		"contacts":    {object{"type": "contacts"}, messages("contacts", list(card), nil)},
		"contact":     {object{"type": "contacts", "origin": "contact_request"}, messages("contacts", list(card), fields{"origin": one("contact_request", "other")})},
		"button tap":  {object{"type": "interactive", "context": object{"id": id}}, messages("interactive", fields{"type": one("button_reply"), "button_reply": fields{"id": text, "title": text}.shape}.shape, reply)},
		"list choice": {object{"type": "interactive", "interactive": object{"type": "list_reply", "list_reply": object{"id": "1", "title": "t", "description": "d"}}}, messages("interactive", fields{"type": one("list_reply"), "list_reply": fields{"id": text, "title": text, "description?": text}.shape}.shape, nil)},
		"form":        {object{"type": "interactive", "interactive": object{"type": "nfm_reply", "nfm_reply": object{"name": "flow", "body": "Sent", "response_json": "{}"}}}, messages("interactive", fields{"type": one("nfm_reply"), "nfm_reply": fields{"name": text, "body": text, "response_json": text}.shape}.shape, nil)},
		"quick reply": {object{"type": "button", "context": object{"id": id}}, messages("button", fields{"payload": text, "text": text}.shape, reply)},
		"reaction":    {object{"type": "reaction", "reaction": object{"message_id": id, "emoji": "👍"}}, messages("reaction", fields{"message_id": wamid, "emoji": one("👍")}.shape, nil)},
		"unreaction":  {object{"type": "reaction", "reaction": object{"message_id": id}}, messages("reaction", fields{"message_id": wamid}.shape, nil)},
		"order":       {object{"type": "order"}, messages("order", fields{"catalog_id": text, "text": anything, "product_items": list(fields{"product_retailer_id": text, "quantity": integer, "item_price": number, "currency": text}.shape)}.shape, nil)},
		"unsupported": {object{"type": "unsupported"}, messages("unsupported", fields{"type": text}.shape, unsupported)},
		"edit":        {object{"type": "edit", "edit": object{"original_message_id": id, "message": object{"type": "text", "text": object{"body": "x"}}}}, messages("edit", fields{"original_message_id": wamid, "message": fields{"type": text, "text": fields{"body": text}.shape}.shape}.shape, nil)},
		"revoke":      {object{"type": "revoke", "revoke": object{"original_message_id": id}}, messages("revoke", fields{"original_message_id": wamid}.shape, nil)},
	} {
		row.given["from"] = "+" + ada
		answer := f.control("inbound", row.given)
		f.check("inbound "+name, answer, fields{"id": wamid}.shape)
		value, entry := f.change("messages", func(path string, v any) []string { return row.want(name+path, v) })
		require.Equal(t, wabaID, entry["id"])
		require.Equal(t, answer["id"], value["messages"].([]any)[0].(object)["id"], name)
	}
	f.control("inbound", object{"from": "15550100003", "type": "text"})
	value, _ := f.change("messages", messages("text", anything, nil))
	require.NotContains(t, value["messages"].([]any)[0], "from", "a user who hides the phone has no field from")
	require.NotContains(t, value["contacts"].([]any)[0], "wa_id")
	f.control("notify", object{"field": "messages"})
	f.change("messages", fields{"messaging_product": product, "metadata": metadata, "errors": list(callbackError)}.shape)
}

// Section 3.3.
func TestCallbacks_Statuses_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pricing := fields{"billable": boolean, "pricing_model": one("PMP"), "type": one("regular", "free_customer_service"), "category": one("service", "utility", "marketing", "authentication")}.shape
	common := fields{
		"id": wamid, "status": one("sent", "delivered", "read", "played"), "timestamp": unix, "recipient_id": digits, "recipient_user_id": userID,
		"biz_opaque_callback_data?": text, "pricing?": pricing,
	}
	frame := func(status shape) shape {
		return fields{"messaging_product": product, "metadata": metadata, "contacts": list(contact), "statuses": list(status)}.shape
	}
	message := send("audio", object{"id": f.upload("audio/ogg", "OggS"), "voice": true})
	message["biz_opaque_callback_data"] = "msg_1:1"
	for _, kind := range []object{message, send("template", object{"name": "hello_world", "language": object{"code": "en_US"}})} {
		f.graph(http.MethodPost, sendPath, kind, accepted)
		wanted := []string{"sent", "delivered", "read"}
		if kind["type"] == "audio" {
			wanted = append(wanted, "played")
		}
		for status, reported := range f.statuses(frame(common.shape), wanted...) {
			_, priced := reported["pricing"]
			require.Equal(t, status == "sent" || status == "delivered", priced)
			if kind["type"] == "audio" {
				require.Equal(t, "msg_1:1", reported["biz_opaque_callback_data"])
			}
		}
	}
	f.control("apps", object{"id": appID, "version": "v23.0"})
	f.graph(http.MethodPost, sendPath, send("text", object{"body": "Hi"}), accepted)
	conversation := fields{"id": text, "origin": fields{"type": text}.shape, "expiration_timestamp?": unix}.shape
	old := f.statuses(frame(common.and(fields{"conversation?": conversation}).shape), "sent", "delivered", "read")
	require.NotNil(t, old["sent"]["conversation"], "up to v23")
	for _, code := range []int{131047, 131026, 131049, 131050, 130472, 131053, 132015, 131042} {
		failing := send("text", object{"body": "Hi"})
		failing["to"] = fmt.Sprintf("+15552%06d", code)
		f.graph(http.MethodPost, sendPath, failing, accepted)
		f.change("messages", fields{"messaging_product": product, "metadata": metadata, "statuses": list(fields{
			"id": wamid, "status": one("failed"), "timestamp": unix, "recipient_id": digits, "errors": list(fields{
				"code": exactly(float64(code)), "title": text, "message": text, "error_data": details, "href?": https,
			}.shape),
		}.shape)}.shape)
	}
}

// Section 3.4.
func TestCallbacks_Identity_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	frame := func(message fields) shape {
		common := fields{"from?": digits, "from_user_id": userID, "id": wamid, "timestamp": unix, "type": one("system")}
		return fields{"messaging_product": product, "metadata": metadata, "messages": list(common.and(message).shape)}.shape
	}
	f.control("system", object{"from": ada, "type": "user_changed_number", "new_phone": "+15550100077"})
	value, _ := f.change("messages", frame(fields{"system": fields{
		"type": one("user_changed_number"), "body": text, "wa_id?": digits, "user_id": userID, "previous_user_id": userID,
	}.shape}))
	require.Equal(t, ada, value["messages"].([]any)[0].(object)["from"], "the old number")
	f.control("system", object{"from": "15550100077", "type": "user_changed_user_id"})
	f.change("messages", frame(fields{"system": fields{
		"type": one("user_changed_user_id"), "body": text, "user_id": userID, "previous_user_id": userID,
	}.shape}))
	for _, kind := range []string{"customer_identity_changed", "user_identity_changed"} {
		f.control("system", object{"from": "15550100077", "type": kind})
		f.change("messages", frame(fields{
			"system":   fields{"type": one(kind), "body": text}.shape,
			"identity": fields{"acknowledged": boolean, "created_timestamp": unix, "hash": text}.shape,
		}))
	}
	f.control("accounts", object{"id": wabaID, "parent_business_id": "300000000000999"})
	f.control("inbound", object{"from": ada})
	value, _ = f.change("messages", messages("text", anything, nil))
	require.Regexp(t, `^US[.]ENT[.]\d+$`, value["messages"].([]any)[0].(object)["from_parent_user_id"])
}

// Section 3.5.
func TestCallbacks_Coexistence_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	echo := fields{"from": digits, "to?": digits, "to_user_id": userID, "id": wamid, "timestamp": unix, "type": text}
	known := fields{"profile?": fields{"username": text}.shape, "wa_id?": digits, "user_id": userID}.shape
	frame := fields{"messaging_product": product, "metadata": metadata}
	f.control("echo", object{"to": ada, "type": "text", "text": object{"body": "From the phone"}})
	value, _ := f.change("smb_message_echoes", frame.and(fields{"contacts": list(known), "message_echoes": list(echo.and(fields{"text": fields{"body": text}.shape}).shape)}).shape)
	id := value["message_echoes"].([]any)[0].(object)["id"]
	f.control("echo", object{"to": ada, "type": "revoke", "revoke": object{"original_message_id": id}})
	f.change("smb_message_echoes", frame.and(fields{"contacts": list(known), "message_echoes": list(echo.and(fields{"revoke": fields{"original_message_id": wamid}.shape}).shape)}).shape)

	n, _ := f.control("numbers", object{"coexistence": true})["id"].(string)
	asked := fields{"messaging_product": product, "request_id": text}.shape
	f.graph(http.MethodPost, n+"/smb_app_data", object{"messaging_product": "whatsapp", "sync_type": "smb_app_state_sync"}, asked)
	f.change("smb_app_state_sync", frame.and(fields{"state_sync": list(fields{
		"type": one("contact"), "action": one("add", "remove"), "metadata": fields{"timestamp": unix}.shape,
		"contact": fields{"full_name?": text, "first_name?": text, "phone_number?": digits, "user_id?": userID, "username?": text}.shape,
	}.shape)}).shape)
	f.graph(http.MethodPost, n+"/smb_app_data", object{"messaging_product": "whatsapp", "sync_type": "history"}, asked)
	past := fields{
		"from": digits, "from_user_id?": userID, "to?": digits, "id": wamid, "timestamp": unix, "type": text, "text": anything,
		"history_context": fields{"status": one("DELIVERED", "ERROR", "PENDING", "PLAYED", "READ", "SENT")}.shape,
	}
	f.change("history", frame.and(fields{"history": list(fields{
		"metadata": fields{"phase": integer, "chunk_order": integer, "progress": integer}.shape,
		"threads":  list(fields{"id?": text, "context?": fields{"wa_id?": digits, "user_id?": userID}.shape, "messages": list(past.shape)}.shape),
	}.shape)}).shape)
	f.refused(http.MethodPost, n+"/smb_app_data", object{"messaging_product": "whatsapp", "sync_type": "history"}, 2593107)
	f.control("notify", object{"field": "history", "phone_number_id": n, "value": object{"history": []any{object{"errors": []any{object{"code": 2593109, "title": "t", "message": "t", "error_data": object{"details": "d"}}}}}}})
	f.change("history", frame.and(fields{"history": list(fields{"errors": list(callbackError)}.shape)}).shape)
	for event, detail := range map[string]fields{
		"PARTNER_REMOVED":     {"waba_info": anything, "disconnection_info": fields{"reason": text, "initiated_by": one("USER", "SYSTEM")}.shape},
		"ACCOUNT_OFFBOARDED":  {"phone_number?": digits},
		"ACCOUNT_RECONNECTED": {"phone_number?": digits},
	} {
		f.graph(http.MethodPost, wabaID+"/subscribed_apps", nil, success)
		f.control("account-update", object{"event": event})
		f.change("account_update", fields{"event": one(event)}.and(detail).shape)
	}
}
