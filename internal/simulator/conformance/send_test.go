package conformance_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// failure is the body of an error (2.1).
func failure(code int) shape {
	return fields{"error": fields{
		"message": text, "type": one("OAuthException", "GraphMethodException"), "code": exactly(float64(code)), "fbtrace_id": text,
		"error_subcode?": integer, "error_data?": either(fields{"messaging_product": product, "details": text}.shape, text),
		"is_transient?": boolean, "error_user_title?": text, "error_user_msg?": text,
	}.shape}.shape
}

var accepted = fields{
	"messaging_product": product, "contacts": list(fields{"input": text, "wa_id": digits}.shape),
	"messages": list(fields{"id": wamid, "message_status?": one("accepted", "held_for_quality_assessment", "paused")}.shape),
}.shape

func send(kind string, content any) object {
	return object{"messaging_product": "whatsapp", "recipient_type": "individual", "to": "+1 (555) 010-0001", "type": kind, kind: content}
}

func part(kind, value string) object { return object{"type": kind, kind: value} }

func interactive(kind string, action object) object {
	return send("interactive", object{"type": kind, "body": object{"text": "b"}, "action": action})
}

func TestSend_EveryType_IsAccepted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.control("settings", object{"silent": true, "pair_limit": false})
	received, _ := f.control("inbound", object{"from": ada, "type": "text"})["id"].(string)
	f.change("messages", anything)
	uploaded := f.upload("image/png", "picture")
	templated := func(name string, components ...any) object {
		return send("template", object{"name": name, "language": object{"code": "en_US"}, "components": components})
	}
	body := func(values ...string) object {
		parameters := []any{}
		for _, one := range values {
			parameters = append(parameters, part("text", one))
		}
		return object{"type": "body", "parameters": parameters}
	}
	row := func(id string) object { return object{"id": id, "title": id, "description": "d"} }
	for name, message := range map[string]object{
		"text":          send("text", object{"body": "Hi https://example.com", "preview_url": true}),
		"image by id":   send("image", object{"id": uploaded, "caption": "c"}),
		"image by link": send("image", object{"link": "https://example.com/a.png"}),
		"video":         send("video", object{"link": "https://example.com/a.mp4", "caption": "c"}),
		"document":      send("document", object{"link": "https://example.com/a.pdf", "filename": "a.pdf"}),
		"audio":         send("audio", object{"link": "https://example.com/a.ogg", "voice": true}),
		"sticker":       send("sticker", object{"link": "https://example.com/a.webp"}),
		"reaction":      send("reaction", object{"message_id": received, "emoji": "👍"}),
		"no reaction":   send("reaction", object{"message_id": received, "emoji": ""}),
		"location":      send("location", object{"latitude": 1.5, "longitude": "2.5", "name": "n", "address": "a"}),
		"contacts":      send("contacts", []any{object{"name": object{"formatted_name": "A"}, "phones": []any{object{"phone": "+1", "type": "CELL"}}}}),
		"buttons":       interactive("button", object{"buttons": []any{object{"type": "reply", "reply": object{"id": "1", "title": "1"}}}}),
		"list":          interactive("list", object{"button": "b", "sections": []any{object{"title": "s", "rows": []any{row("1"), row("2")}}}}),
		"url":           interactive("cta_url", object{"name": "cta_url", "parameters": object{"display_text": "d", "url": "https://example.com"}}),
		"flow":          interactive("flow", object{"name": "flow", "parameters": object{"flow_message_version": "3", "flow_id": "1", "flow_cta": "Go"}}),
		"ask location":  interactive("location_request_message", object{"name": "send_location"}),
		"ask contact":   interactive("request_contact_info", object{"name": "request_contact_info"}),
		"template":      templated("hello_world"),
		"parameters":    templated("order_update", body("Ada", "A-1"), object{"type": "button", "sub_type": "url", "index": "1", "parameters": []any{part("text", "A-1")}}),
		"numbered":      templated("order_update", body("Ada", "A-1"), object{"type": "button", "sub_type": "url", "index": 1, "parameters": []any{part("text", "A-1")}}),
		"code":          templated("login_code", body("123"), object{"type": "button", "sub_type": "url", "index": "0", "parameters": []any{part("text", "123")}}),
		"header":        templated("spring_sale", object{"type": "header", "parameters": []any{object{"type": "image", "image": object{"link": "https://example.com/a.png"}}}}, body("Ada")),
		"named": templated("appointment_reminder", object{"type": "body", "parameters": []any{
			object{"type": "text", "parameter_name": "first_name", "text": "Ada"}, object{"type": "text", "parameter_name": "day", "text": "Monday"},
		}}),
	} {
		answer := f.graph(http.MethodPost, sendPath, message, accepted)
		contacts, _ := answer["contacts"].([]any)
		require.Equal(t, object{"input": "+1 (555) 010-0001", "wa_id": ada}, contacts[0], name)
	}
	reply := send("text", object{"body": "Hi"})
	reply["context"] = object{"message_id": received}
	f.graph(http.MethodPost, sendPath, reply, accepted)
	f.graph(http.MethodPost, sendPath, object{
		"messaging_product": "whatsapp", "status": "read", "message_id": received, "typing_indicator": object{"type": "text"},
	}, success)
	held := send("text", object{"body": "Hi"})
	held["to"] = "+15559000001"
	answer := f.graph(http.MethodPost, sendPath, held, accepted)
	sent, _ := answer["messages"].([]any)
	require.Equal(t, "held_for_quality_assessment", sent[0].(object)["message_status"])
}

// codes is the table of 2.3 with the HTTP statuses that it allows; none where it names none.
var codes = map[int][]int{
	0: {401}, 1: {400}, 2: {503}, 3: {500}, 4: {400, 429}, 10: {403}, 33: {400}, 100: {400}, 102: {400, 401}, 450: {400, 401}, 452: {400, 401},
	2500: {400, 401}, 190: {401}, 200: {403}, 299: {403}, 368: {403}, 613: {}, 803: {404}, 80007: {400}, 80008: {}, 130429: {400, 429}, 130472: {400},
	130497: {403}, 131000: {500}, 131005: {403}, 131008: {400}, 131009: {400}, 131014: {}, 131016: {500}, 131020: {}, 131041: {}, 131059: {},
	131201: {}, 131215: {}, 131021: {400}, 131026: {400}, 131030: {400}, 131031: {403}, 131037: {400}, 131042: {400}, 131044: {}, 131045: {500},
	131047: {400}, 131048: {400}, 131049: {400}, 131050: {400}, 131051: {400}, 131052: {400}, 131053: {400}, 131055: {400}, 131056: {400},
	131057: {500}, 131060: {}, 131062: {400}, 131063: {}, 131064: {}, 132000: {400}, 132001: {404}, 132005: {400}, 132007: {400}, 132008: {},
	132012: {400}, 132015: {400}, 132016: {400}, 132018: {}, 132068: {400}, 132069: {400}, 133000: {500}, 133004: {503}, 133005: {400},
	133006: {400}, 133008: {400}, 133009: {400}, 133010: {400}, 133015: {400}, 133016: {400}, 134011: {400}, 134100: {400}, 134101: {400},
	134102: {500}, 134103: {}, 135000: {400}, 137000: {}, 138000: {}, 139000: {}, 139100: {}, 147001: {}, 2593107: {400}, 2593108: {400},
}

func TestErrors_EveryCode_HasItsHTTPStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for code, statuses := range codes {
		message := send("text", object{"body": "Hi"})
		if message["to"] = fmt.Sprintf("+15554%06d", code); code > 999_999 { // does not fit into a number
			message["to"] = ada
			f.control("script", object{"match": object{"to": ada}, "outcome": object{"sync_code": code}, "times": 1})
		}
		response, _ := f.refused(http.MethodPost, sendPath, message, code)
		if len(statuses) > 0 && !slices.Contains(statuses, response.StatusCode) {
			t.Errorf("%d is answered with %d, not one of %v", code, response.StatusCode, statuses)
		}
		require.GreaterOrEqual(t, response.StatusCode, 400)
	}
}

func TestErrors_TokensAndObjects_HaveTheirCodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	message := send("text", object{"body": "Hi"})
	for name, header := range map[string]string{"unknown": "Bearer nonsense", "none": ""} {
		response, answer := f.raw(http.MethodPost, "/v24.0/"+sendPath, "application/json", []byte("{}"), "Authorization", header)
		f.check(name, answer, failure(190))
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
		require.NotEmpty(t, response.Header.Get("www-authenticate"))
	}
	subcode := func(answer object) any { return answer["error"].(object)["error_subcode"] }
	old, _ := f.control("tokens", object{"expires_in_seconds": -1})["access_token"].(string)
	_, answer := f.raw(http.MethodGet, "/v24.0/"+phoneID, "application/json", nil, "Authorization", "Bearer "+old)
	f.check("expired", answer, failure(190))
	require.InDelta(t, 463, subcode(answer), 0)
	other, _ := f.control("accounts", object{"name": "Other"})["id"].(string)
	narrow, _ := f.control("tokens", object{"accounts": []any{other}})["access_token"].(string)
	response, answer := f.raw(http.MethodGet, "/v24.0/"+phoneID, "application/json", nil, "Authorization", "Bearer "+narrow)
	f.check("foreign", answer, failure(200))
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	response, answer = f.refused(http.MethodPost, "100000000009999/messages", message, 100)
	require.InDelta(t, 33, subcode(answer), 0)
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	response, answer = f.raw(http.MethodGet, "/"+phoneID+"?access_token="+token, "application/json", nil, "Authorization", "")
	require.Equal(t, http.StatusOK, response.StatusCode, "the version is optional, and the token may be in the query: %v", answer)
}
