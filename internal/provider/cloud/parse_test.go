package cloud_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
)

var update = flag.Bool("update", false, "write what the payloads are read as to testdata/parsed.txt")

// payloads are the callbacks of testdata by name.
func payloads(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/callbacks/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string][]byte{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = body
	}
	return all
}

func parser(t testing.TB) *cloud.Client {
	t.Helper()
	client, err := cloud.New(cloud.Config{})
	require.NoError(t, err)
	return client
}

// TestParse compares the notifications of each payload with testdata/parsed.txt, which is written
// with -update and reviewed by a person.
func TestParse(t *testing.T) {
	t.Parallel()
	client := parser(t)
	all := payloads(t)
	var out bytes.Buffer
	for _, name := range sorted(all) {
		notifications, err := client.Parse(all[name])
		require.NoError(t, err, name)
		fmt.Fprintf(&out, "# %s\n", name)
		for _, one := range notifications {
			fmt.Fprintln(&out, shown(one))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/parsed.txt", out.Bytes(), 0o600))
	}
	want, err := os.ReadFile("testdata/parsed.txt")
	require.NoError(t, err)
	require.Equal(t, strings.Split(string(want), "\n"), strings.Split(out.String(), "\n"))
}

func sorted(all map[string][]byte) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// shown is a notification on one line: where it belongs, its type, and what is not empty.
func shown(one provider.Notification) string {
	where := one
	where.Item, where.Raw, where.Contact = nil, nil, nil
	kind := strings.TrimPrefix(fmt.Sprintf("%T", one.Item), "provider.")
	line := fmt.Sprintf("%s %s", pruned(where), kind+" "+pruned(one.Item))
	if len(one.Contact) > 0 {
		line += " +contact"
	}
	return line
}

func pruned(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	_ = decoder.Decode(&decoded)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(prune(decoded))
	return strings.TrimSpace(text.String())
}

func prune(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			field = prune(field)
			empty := field == nil || field == "" || field == false || field == json.Number("0") || field == "0001-01-01T00:00:00Z"
			if fields, is := field.(map[string]any); is && len(fields) == 0 {
				empty = true
			}
			if key == "Raw" { // checked by the envelopes
				empty = true
			}
			if value[key] = field; empty {
				delete(value, key)
			}
		}
		return value
	case []any:
		for i := range value {
			value[i] = prune(value[i])
		}
		return value
	default:
		return value
	}
}

// TestParse_Envelope puts every item into an envelope of its own and parses it again: a dead
// letter loses nothing.
func TestParse_Envelope(t *testing.T) {
	t.Parallel()
	client := parser(t)
	for name, body := range payloads(t) {
		notifications, err := client.Parse(body)
		require.NoError(t, err)
		for _, one := range notifications {
			envelope, err := one.Envelope()
			require.NoError(t, err, name)
			require.NotContains(t, string(envelope), `"messaging_product":"whatsapp"`, name)
			require.Contains(t, string(envelope), `"object":"chat_business_account"`)
			again, err := client.Parse(envelope)
			require.NoError(t, err, name)
			require.Len(t, again, 1, name)
			if _, unknown := one.Item.(provider.Unknown); !unknown { // whose reason may be another when it stands alone
				require.Equal(t, shown(one), shown(again[0]), name)
			}
			require.IsType(t, one.Item, again[0].Item, name)
			require.JSONEq(t, string(one.Raw), string(again[0].Raw), name)
		}
	}
}

func TestParse_UnknownFieldsAndOrderChangeNothing(t *testing.T) {
	t.Parallel()
	client := parser(t)
	for name, body := range payloads(t) {
		notifications, err := client.Parse(body)
		require.NoError(t, err)
		var decoded any
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&decoded))
		strange, err := json.Marshal(estranged(decoded, true))
		require.NoError(t, err)
		again, err := client.Parse(strange)
		require.NoError(t, err, name)
		require.Len(t, again, len(notifications), name)
		for i := range again {
			require.Equal(t, reflect.TypeOf(notifications[i].Item), reflect.TypeOf(again[i].Item), name)
			require.Equal(t, withoutContent(notifications[i].Item), withoutContent(again[i].Item), name)
			require.Equal(t, notifications[i].NumberID, again[i].NumberID)
			require.Equal(t, notifications[i].BusinessAccountID, again[i].BusinessAccountID)
		}
	}
}

// estranged adds unknown fields to every object, and changes the order of keys.
func estranged(value any, deep bool) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			value[key] = estranged(field, deep)
		}
		value["aaa_new"], value["zzz_new"] = map[string]any{"id": "x", "type": "y"}, []any{1, "two", nil}
		return value
	case []any:
		for i := range value {
			value[i] = estranged(value[i], deep)
		}
		return value
	default:
		return value
	}
}

// withoutContent drops the members that keep unknown fields on purpose.
func withoutContent(item provider.Item) string {
	encoded, _ := json.Marshal(item)
	var fields map[string]any
	_ = json.Unmarshal(encoded, &fields)
	for _, name := range []string{"Content", "Referral", "Buttons", "Threads"} {
		delete(fields, name)
	}
	encoded, _ = json.Marshal(fields)
	return string(encoded)
}

// TestParse_AnyDamage replaces values at random: nothing fails, and no item is lost.
func TestParse_AnyDamage(t *testing.T) {
	t.Parallel()
	client := parser(t)
	all := payloads(t)
	names := sorted(all)
	rapid.Check(t, func(t *rapid.T) {
		var decoded any
		if err := json.Unmarshal(all[rapid.SampledFrom(names).Draw(t, "payload")], &decoded); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			decoded = damaged(t, decoded)
		}
		body, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		notifications, err := client.Parse(body)
		if _, object := decoded.(map[string]any); !object {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.NotEmpty(t, notifications)
		requireWhole(t, client, notifications)
		requireDivided(t, client, body, 100)
	})
}

func damaged(t *rapid.T, value any) any {
	wrong := []any{
		nil, true, "", "text", "\x00", -1.0, 0.0, 1e300, "9223372036854775808", 9.3e18,
		[]any{},
		[]any{nil, 1.0, "x"},
		map[string]any{},
		map[string]any{"id": 1.0, "type": []any{}},
		strings.Repeat("n", 100_000), "2026-11-15T10:00:00Z",
	}
	if rapid.IntRange(0, 9).Draw(t, "stop") == 0 {
		return rapid.SampledFrom(wrong).Draw(t, "wrong")
	}
	switch value := value.(type) {
	case map[string]any:
		if len(value) > 0 {
			keys := make([]string, 0, len(value))
			for key := range value {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			key := rapid.SampledFrom(keys).Draw(t, "key")
			value[key] = damaged(t, value[key])
			return value
		}
	case []any:
		if len(value) > 0 {
			i := rapid.IntRange(0, len(value)-1).Draw(t, "element")
			value[i] = damaged(t, value[i])
			return value
		}
	}
	return rapid.SampledFrom(wrong).Draw(t, "wrong")
}

// requireWhole holds for every parsed body: each item can be stored and parsed again.
func requireWhole(t require.TestingT, client *cloud.Client, notifications []provider.Notification) {
	for _, one := range notifications {
		require.NotNil(t, one.Item)
		envelope, err := one.Envelope()
		require.NoError(t, err)
		again, err := client.Parse(envelope)
		require.NoError(t, err)
		require.Len(t, again, 1)
		require.Equal(t, reflect.TypeOf(one.Item), reflect.TypeOf(again[0].Item), "%s", envelope)
	}
}

// PostgreSQL refuses a NUL, and strict readers of JSON refuse a lone surrogate: neither reaches a row or an event.
func TestParse_TextThatOthersRefuse_Replaced(t *testing.T) {
	t.Parallel()
	client := parser(t)
	for given, want := range map[string]string{
		`a\u0000b`: `a\ufffdb`, `x\ud800y`: `x\ufffdy`, `\udc00`: `\ufffd`, `\ud800\ud83d\ude00`: `\ufffd\ud83d\ude00`,
		`\uD83D\uDE00 \\u0000 \\ud800`: `\uD83D\uDE00 \\u0000 \\ud800`, `\\\u0000`: `\\\ufffd`, `\ud800\n`: `\ufffd\n`, `end \ud83d`: `end \ufffd`,
	} {
		notifications, err := client.Parse([]byte(`{"entry":[{"id":"4","changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"1"},` +
			`"messages":[{"from":"15550100001","id":"m","type":"text","text":{"body":"` + given + `"}}]}}]}]}`))
		require.NoError(t, err, given)
		require.Len(t, notifications, 1, given)
		message := notifications[0].Item.(provider.Inbound)
		require.Equal(t, `{"body":"`+want+`"}`, string(message.Content), given)
		envelope, err := notifications[0].Envelope()
		require.NoError(t, err)
		require.Contains(t, string(envelope), `"body":"`+want+`"`, given)
	}
}

func TestParse_RefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	client := parser(t)
	for _, body := range []string{"", " ", "null", "[]", `"x"`, "1", "{", `{"entry":[}`, "<html>", `{"a":1}{"b":2}`} {
		_, err := client.Parse([]byte(body))
		require.Error(t, err, body)
	}
	for _, body := range []string{`{}`, `{"entry":null}`, `{"entry":[]}`, `{"entry":[null]}`, `{"entry":{}}`, `{"entry":[{"changes":[{}]}]}`} {
		notifications, err := client.Parse([]byte(body))
		require.NoError(t, err, body)
		require.Len(t, notifications, 1, body)
		require.IsType(t, provider.Unknown{}, notifications[0].Item, body)
	}
}

func TestParse_KeepsWhatItCannotUse(t *testing.T) {
	t.Parallel()
	client := parser(t)
	for _, value := range []string{`{}`, `{"messages":{}}`, `{"messages":[]}`, `{"statuses":"x"}`, `{"metadata":{"phone_number_id":"1"}}`, `[]`, `null`} {
		notifications, err := client.Parse([]byte(`{"entry":[{"id":"4","changes":[{"field":"messages","value":` + value + `}]}]}`))
		require.NoError(t, err, value)
		require.Len(t, notifications, 1, value)
		require.IsType(t, provider.Unknown{}, notifications[0].Item, value)
		require.Equal(t, "4", notifications[0].BusinessAccountID, value)
		require.JSONEq(t, value, string(notifications[0].Raw))
	}
}

func TestParse_MakesTextFitToBeStored(t *testing.T) {
	t.Parallel()
	body := "{\"entry\":[{\"id\":\"4\",\"changes\":[{\"field\":\"messages\",\"value\":{\"messages\":[{\"id\":\"w\",\"type\":\"text\",\"text\":{\"body\":\"a\xffb\"}}]}}]}]}"
	notifications, err := parser(t).Parse([]byte(body))
	require.NoError(t, err)
	require.True(t, utf8.Valid(notifications[0].Raw))
	require.True(t, utf8.Valid(notifications[0].Item.(provider.Inbound).Content))
}

func TestParse_AThousandUpdates(t *testing.T) {
	t.Parallel()
	var statuses []string
	for i := range 1000 {
		statuses = append(statuses, fmt.Sprintf(`{"id":"wamid.%d","status":"sent","timestamp":"1763197200","recipient_id":"15550100001"}`, i))
	}
	body := `{"entry":[{"id":"4","changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"statuses":[` + strings.Join(statuses, ",") + `]}}]}]}`
	notifications, err := parser(t).Parse([]byte(body))
	require.NoError(t, err)
	require.Len(t, notifications, 1000)
	for i, one := range notifications {
		require.Equal(t, fmt.Sprintf("wamid.%d", i), one.Item.(provider.Status).MessageID, "in the order received")
	}
}

func FuzzParse(f *testing.F) {
	for _, body := range payloads(f) {
		f.Add(body)
	}
	client := parser(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		notifications, err := client.Parse(body)
		if err != nil {
			return
		}
		require.NotEmpty(t, notifications)
		requireWhole(t, client, notifications)
		requireDivided(t, client, body, 100)
	})
}
