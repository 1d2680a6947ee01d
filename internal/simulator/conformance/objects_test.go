package conformance_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// form is a multipart upload.
func form(t *testing.T, contentType, content string) (header string, body []byte) {
	t.Helper()
	var buffer bytes.Buffer
	writer := multipart.NewWriter(&buffer)
	require.NoError(t, writer.WriteField("messaging_product", "whatsapp"))
	require.NoError(t, writer.WriteField("type", contentType))
	part, err := writer.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="a"`}, "Content-Type": {contentType},
	})
	require.NoError(t, err)
	_, err = io.WriteString(part, content)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return writer.FormDataContentType(), buffer.Bytes()
}

func (f *fixture) upload(contentType, content string) string {
	f.t.Helper()
	header, body := form(f.t, contentType, content)
	response, answer := f.raw(http.MethodPost, "/v24.0/"+phoneID+"/media", header, body)
	require.Equal(f.t, http.StatusOK, response.StatusCode, answer)
	f.check("upload", answer, fields{"id": decimal}.shape)
	id, _ := answer["id"].(string)
	return id
}

// Section 4: media.
func TestMedia_UploadReadDownloadDelete_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.upload("image/png", "picture")
	found := f.graph(http.MethodGet, id+"?phone_number_id="+phoneID, nil, fields{
		"messaging_product": product, "url": https, "mime_type": one("image/png"), "sha256": match("[0-9a-f]{64}"), "file_size": exactly(7), "id": one(id),
	}.shape)
	address, _ := found["url"].(string)
	require.True(t, strings.HasPrefix(address, f.url), "on the simulator's own host")
	download := func(authorization string) (int, string, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", authorization)
		response, err := f.client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, response.Header.Get("Content-Type"), string(content)
	}
	status, contentType, content := download("Bearer " + token)
	require.Equal(t, []any{200, "image/png", "picture"}, []any{status, contentType, content})
	status, _, _ = download("")
	require.Equal(t, http.StatusUnauthorized, status)
	f.control("clock", object{"advance_seconds": 301})
	status, _, _ = download("Bearer " + token)
	require.Equal(t, http.StatusNotFound, status, "expired")
	f.refused(http.MethodGet, id+"?phone_number_id=100000000009999", nil, 100)
	header, body := form(t, "image/gif", "gif")
	_, answer := f.raw(http.MethodPost, "/v24.0/"+phoneID+"/media", header, body)
	f.check("a wrong type", answer, failure(100))
	header, body = form(t, "image/png", strings.Repeat("x", 5<<20+1))
	_, answer = f.raw(http.MethodPost, "/v24.0/"+phoneID+"/media", header, body)
	f.check("too large", answer, failure(131053))
	f.graph(http.MethodDelete, id, nil, success)
	f.refused(http.MethodGet, id, nil, 100)
	id = f.upload("image/png", "picture")
	f.control("clock", object{"advance_seconds": 31 * 24 * 3600})
	f.refused(http.MethodGet, id, nil, 100)
}

func TestMedia_ResumableUpload_AnswersAHandle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	begun := f.graph(http.MethodPost, appID+"/uploads?file_name=a.png&file_length=10&file_type=image/png", nil, fields{"id": match("upload:.+")}.shape)
	session, _ := begun["id"].(string)
	put := func(offset, content string) object {
		_, answer := f.raw(http.MethodPost, "/v24.0/"+session, "application/octet-stream", []byte(content), "file_offset", offset, "Authorization", "OAuth "+token)
		return answer
	}
	f.check("a part", put("0", "01234"), fields{"id": text, "file_offset": exactly(5)}.shape)
	f.graph(http.MethodGet, session, nil, fields{"id": one(session), "file_offset": exactly(5)}.shape)
	f.check("a wrong offset", put("0", "01234"), failure(100))
	f.check("the rest", put("5", "56789"), fields{"h": match("4::aW.+")}.shape)
}

// Section 5: templates.
func TestTemplates_CreateListEditDelete_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item := fields{
		"id": decimal, "name": match("[a-z0-9_]+"), "language": text, "status": text, "category": text, "components": list(anything),
		"parameter_format?": one("POSITIONAL", "NAMED"), "sub_category?": text,
	}
	page := fields{"data": list(item.shape), "paging": fields{
		"cursors": fields{"before": text, "after": text}.shape, "next?": https, "previous?": https,
	}.shape}.shape
	var seen []any
	path := "/v24.0/" + wabaID + "/message_templates?limit=2"
	for path != "" {
		_, answer := f.call(http.MethodGet, path, nil)
		f.check("a page", answer, page)
		data, _ := answer["data"].([]any)
		seen = append(seen, data...)
		next, _ := answer["paging"].(object)["next"].(string)
		path = strings.TrimPrefix(next, f.url)
	}
	require.Len(t, seen, 6)
	created := f.graph(http.MethodPost, wabaID+"/message_templates", object{"name": "greeting", "language": "en_US", "category": "UTILITY", "components": []any{
		object{"type": "BODY", "text": "Hi {{1}}, welcome to our shop.", "example": object{"body_text": []any{[]any{"Ada"}}}},
	}}, fields{"id": decimal, "status": one("PENDING"), "category": one("UTILITY")}.shape)
	id, _ := created["id"].(string)
	value, _ := f.change("message_template_status_update", anything)
	require.Equal(t, "APPROVED", value["event"])
	f.graph(http.MethodGet, id+"?fields=id,status,quality_score,rejected_reason,health_status", nil, fields{
		"id": one(id), "status": one("APPROVED"), "quality_score": fields{"score": text, "date": integer}.shape, "rejected_reason": text,
		"health_status": anything,
	}.shape)
	edited := object{"components": []any{object{"type": "BODY", "text": "Hello {{1}}, welcome to our shop.", "example": object{"body_text": []any{[]any{"Ada"}}}}}}
	f.graph(http.MethodPost, id, edited, success)
	f.change("message_template_components_update", aboutTemplate.and(fields{
		"message_template_element": text, "message_template_title?": text, "message_template_footer?": text, "message_template_buttons?": anything,
	}).shape)
	f.change("message_template_status_update", anything)
	f.refused(http.MethodPost, id, edited, 100) // once in 24 hours
	f.graph(http.MethodDelete, wabaID+"/message_templates?name=greeting", nil, success)
	f.refused(http.MethodGet, id, nil, 100)
}

func TestTemplates_InvalidBodies_AreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := func(text string, examples ...any) object {
		return object{"type": "BODY", "text": text, "example": object{"body_text": []any{examples}}}
	}
	fine := body("Fine.")
	for name, row := range map[string]struct {
		subcode    float64
		name       string
		components []any
	}{
		"a name that exists":     {2388024, "hello_world", []any{fine}},
		"a long footer":          {2388040, "x", []any{fine, object{"type": "FOOTER", "text": strings.Repeat("x", 61)}}},
		"two header variables":   {2388047, "x", []any{object{"type": "HEADER", "format": "TEXT", "text": "{{1}} {{2}}"}, fine}},
		"no example":             {2388072, "x", []any{object{"type": "BODY", "text": "Hi {{1}}, good to see you."}}},
		"a variable in a footer": {2388073, "x", []any{fine, object{"type": "FOOTER", "text": "{{1}}"}}},
		"too many variables":     {2388293, "x", []any{body("a {{1}} {{2}} {{3}} b", "1", "2", "3")}},
		"a variable at the end":  {2388299, "x", []any{body("Good to see you, {{1}}", "1")}},
	} {
		_, answer := f.refused(http.MethodPost, wabaID+"/message_templates", object{
			"name": row.name, "language": "en_US", "category": "UTILITY", "components": row.components,
		}, 100)
		require.InDelta(t, row.subcode, answer["error"].(object)["error_subcode"], 0, name)
		require.NotEmpty(t, answer["error"].(object)["error_user_msg"], name)
	}
}

// Section 6.1: numbers.
func TestNumbers_RegisterVerifyChange_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	basic := fields{
		"id": decimal, "display_phone_number": match(`\+[0-9 -]+`), "verified_name": text, "quality_rating": one("GREEN", "YELLOW", "RED", "NA", "UNKNOWN"),
		"code_verification_status": one("VERIFIED", "NOT_VERIFIED", "EXPIRED"), "platform_type": one("CLOUD_API", "ON_PREMISE", "NOT_APPLICABLE"),
		"throughput": fields{"level": one("STANDARD", "HIGH", "NOT_APPLICABLE")}.shape, "webhook_configuration": anything, "last_onboarded_time": text,
	}
	f.graph(http.MethodGet, phoneID, nil, basic.shape)
	f.graph(http.MethodGet, wabaID+"/phone_numbers", nil, fields{"data": list(basic.shape), "paging": anything}.shape)
	f.graph(http.MethodGet, phoneID+"?fields=status,name_status,account_mode,is_on_biz_app,whatsapp_business_manager_messaging_limit", nil, fields{
		"id": one(phoneID), "status": one("CONNECTED"), "name_status": text, "account_mode": one("LIVE", "SANDBOX"), "is_on_biz_app": boolean,
		"whatsapp_business_manager_messaging_limit": match("TIER_.+"),
	}.shape)
	able := one("AVAILABLE", "LIMITED", "BLOCKED")
	for _, node := range []string{phoneID, wabaID} {
		f.graph(http.MethodGet, node+"?fields=health_status", nil, fields{"id": one(node), "health_status": fields{
			"can_send_message": able, "entities": list(fields{"entity_type": text, "id": text, "can_send_message": able, "errors?": anything, "additional_info?": anything}.shape),
		}.shape}.shape)
	}
	id, _ := f.control("numbers", object{"status": "PENDING", "verified": false})["id"].(string)
	pin := func(value string) object { return object{"messaging_product": "whatsapp", "pin": value} }
	f.refused(http.MethodPost, id+"/messages", send("text", object{"body": "Hi"}), 133010)
	f.refused(http.MethodPost, id+"/register", pin("111111"), 133006)
	f.refused(http.MethodPost, id+"/verify_code", object{"code": "000000"}, 136025)
	f.graph(http.MethodPost, id+"/request_code", object{"code_method": "SMS", "language": "en_US"}, success)
	f.graph(http.MethodPost, id+"/verify_code", object{"code": "123456"}, success)
	f.refused(http.MethodPost, id+"/register", pin("12"), 100)
	f.graph(http.MethodPost, id+"/register", pin("111111"), success)
	f.graph(http.MethodGet, id+"?fields=status", nil, fields{"id": one(id), "status": one("CONNECTED")}.shape)
	f.graph(http.MethodPost, id+"/deregister", nil, success)
	f.refused(http.MethodPost, id+"/register", pin("222222"), 133005)
	f.graph(http.MethodPost, id, object{"pin": "333333"}, success)
	f.change("security", fields{"display_phone_number": digits, "event": one("PIN_CHANGED"), "requester?": text}.shape)
	f.graph(http.MethodPost, id+"/register", pin("333333"), success)
	for range 5 {
		f.refused(http.MethodPost, id+"/register", pin("222222"), 133005)
	}
	f.refused(http.MethodPost, id+"/register", pin("333333"), 133016) // the eleventh in 72 hours, or so many guesses
	for _, code := range []int{133000, 133004, 133005, 133006, 133008, 133009, 133010, 133015, 133016} {
		f.refused(http.MethodPost, id+"/register", pin(fmt.Sprint(code)), code)
	}
	n, _ := f.control("numbers", object{"coexistence": true})["id"].(string)
	f.refused(http.MethodPost, n+"/deregister", nil, 100)
}

// Sections 6.2 and 6.3: signup and tokens.
func TestSignup_CodeAndToken_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done := f.control("signup", object{"business_name": "Corner Shop"})
	f.check("signup", done, fields{"code": text, "event": one("FINISH"), "data": fields{
		"phone_number_id": decimal, "waba_id": decimal, "business_id": decimal,
	}.shape}.shape)
	waba, _ := done["data"].(object)["waba_id"].(string)
	number, _ := done["data"].(object)["phone_number_id"].(string)
	value, entry := f.change("account_update", fields{"event": one("PARTNER_ADDED"), "waba_info": fields{"waba_id": one(waba), "owner_business_id": decimal}.shape}.shape)
	require.NotEqual(t, waba, entry["id"], value)
	exchange := func(code any) (*reply, object) {
		query := url.Values{"client_id": {appID}, "client_secret": {secret}, "code": {fmt.Sprint(code)}}
		return f.raw(http.MethodGet, "/v24.0/oauth/access_token?"+query.Encode(), "", nil, "Authorization", "")
	}
	_, answer := exchange(done["code"])
	f.check("exchange", answer, fields{"access_token": text, "token_type": one("bearer"), "expires_in?": integer}.shape)
	business, _ := answer["access_token"].(string)
	_, answer = exchange(done["code"])
	f.check("a used code", answer, failure(100))
	late := f.control("signup", object{"coexistence": true})
	require.Equal(t, "FINISH_WHATSAPP_BUSINESS_APP_ONBOARDING", late["event"])
	f.change("account_update", anything)
	f.control("clock", object{"advance_seconds": 31})
	_, answer = exchange(late["code"])
	f.check("a late code", answer, failure(100))

	_, answer = f.raw(http.MethodGet, "/v24.0/debug_token?input_token="+business, "", nil, "Authorization", "Bearer "+appID+"|"+secret)
	f.check("debug_token", answer, fields{"data": fields{
		"app_id": one(appID), "type": text, "application": text, "is_valid": boolean, "issued_at": integer, "expires_at": integer,
		"data_access_expires_at": integer, "scopes": list(text), "granular_scopes": list(fields{"scope": text, "target_ids?": list(one(waba))}.shape), "user_id?": text,
	}.shape}.shape)
	as := func(method, path string, body []byte) object {
		response, answer := f.raw(method, "/v24.0/"+path, "application/json", body, "Authorization", "Bearer "+business)
		require.Equal(t, http.StatusOK, response.StatusCode, "%s: %v", path, answer)
		return answer
	}
	_, answer = f.raw(http.MethodGet, "/v24.0/"+phoneID, "", nil, "Authorization", "Bearer "+business)
	f.check("another's number", answer, failure(200))
	f.check("numbers", as(http.MethodGet, waba+"/phone_numbers", nil), fields{"data": list(anything), "paging": anything}.shape)
	as(http.MethodPost, number+"/register", []byte(`{"messaging_product":"whatsapp","pin":"123456"}`))
	as(http.MethodPost, waba+"/subscribed_apps", nil)
	as(http.MethodPost, waba+"/subscribed_apps", []byte(fmt.Sprintf(`{"override_callback_uri":%q,"verify_token":%q}`, f.app, verify)))
	f.check("subscribed", as(http.MethodGet, waba+"/subscribed_apps", nil), fields{"data": list(fields{
		"whatsapp_business_api_data": fields{"id": decimal, "name": text, "link": https}.shape, "override_callback_uri?": https,
	}.shape)}.shape)
	f.check("unsubscribed", as(http.MethodDelete, waba+"/subscribed_apps", nil), success)
}
