package simulator_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

// TestControl_UnknownField_IsRefused adds a misspelt field to a valid body of every control.
func TestControl_UnknownField_IsRefused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		_, state := f.call(http.MethodGet, "/sim/state", "", nil)
		template := dig(state, "templates", 0, "id").(string)
		for path, body := range map[string]object{
			"inbound": {"from": ada, "type": "text", "text": object{"body": "Hi"}}, "echo": {"to": ada, "type": "text", "text": object{"body": "Hi"}},
			"script": {"outcome": object{"twice": true}}, "settings": {"silent": false},
			"templates/" + template + "/review": {"event": "APPROVED"}, "templates/" + template + "/quality": {"new_quality_score": "RED"},
			"templates/" + template + "/category": {"new_category": "MARKETING"},
			"preferences":                         {"from": ada, "value": "stop"}, "system": {"from": ada, "type": "user_changed_user_id"},
			"account-update": {"event": "ACCOUNT_VIOLATION"}, "notify": {"field": "security"}, "clock": {"advance_seconds": 1},
			"apps": {"name": "Second"}, "accounts": {"name": "Second"}, "numbers": {}, "users": {"phone": ada}, "tokens": {}, "signup": {}, "reset": {},
		} {
			misspelt := maps.Clone(body)
			misspelt["contxt"] = object{"id": "1"}
			status, answer := f.call(http.MethodPost, "/sim/"+path, "", misspelt)
			require.Equal(t, http.StatusBadRequest, status, "%s: %v", path, answer)
			require.Contains(t, dig(answer, "error", "message"), `"contxt"`, path)
			f.control(path, body)
		}
		status, answer := f.call(http.MethodPost, "/sim/script", "", object{"match": object{"too": ada}, "outcome": object{}})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), `"too"`)
		status, answer = f.call(http.MethodPost, "/sim/inbound", "", object{"from": ada, "type": "image", "image": object{"captoin": "x"}})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), `"captoin"`)
		status, answer = f.call(http.MethodGet, "/sim/sent?phone="+ada, "", nil)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), `"phone"`)
	})
}

func TestControl_ThreadWithoutParameters_NamesThem(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		status, answer := f.call(http.MethodGet, "/sim/thread?user="+ada, "", nil)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), "phone_number_id is required")
		status, answer = f.call(http.MethodGet, "/sim/thread?phone_number_id="+simulator.DefaultPhoneNumberID, "", nil)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), "user must be the phone number")
		_, answer = f.call(http.MethodGet, "/sim/thread?phone_number_id="+simulator.DefaultPhoneNumberID+"&user="+ada, "", nil)
		require.Equal(t, object{"data": []any{}}, answer, "nothing was written yet")
	})
}

func TestControl_ContentOfAnotherType_IsRefused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		status, answer := f.call(http.MethodPost, "/sim/inbound", "", object{"from": ada, "type": "image", "text": object{"body": "Hi"}})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), `"text"`)
		require.NotEmpty(t, f.control("inbound", object{"from": ada, "text": object{"body": "without a type it is a text"}})["id"])
	})
}

func TestControl_BadCallbackURL_IsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for _, address := range []string{"app.test/callbacks", "/callbacks", "localhost:8080", "ftp://app.test/", "http://", "http:///path", "http://%zz/", "https:app.test"} {
			status, answer := f.call(http.MethodPost, "/sim/apps", "", object{"id": simulator.DefaultAppID, "name": "Changed", "callback_url": address})
			require.Equal(t, http.StatusBadRequest, status, address)
			require.Contains(t, dig(answer, "error", "message"), "callback_url must be an absolute URL", address)
		}
		app := f.control("apps", object{"id": simulator.DefaultAppID})
		require.Equal(t, []any{callbackURL, "Parley"}, []any{app["callback_url"], app["name"]})
		for _, address := range []string{"http://127.0.0.1:8080/provider/callbacks", "https://app.test", ""} {
			require.Equal(t, address, f.control("apps", object{"id": simulator.DefaultAppID, "callback_url": address})["callback_url"])
		}
	})
}

func TestControl_SubscribedUnknownApp_IsRefused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		status, answer := f.call(http.MethodPost, "/sim/accounts", "", object{"name": "Shop", "subscribed": []any{"9"}})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, dig(answer, "error", "message"), "there is no app 9")
	})
}
