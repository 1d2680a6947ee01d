package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func badShape(t *testing.T, b *badInputFixture) {
	nest := func(open, inner, end string, levels int) string {
		return `{"name":` + strings.Repeat(open, levels) + inner + strings.Repeat(end, levels) + `}`
	}
	for _, levels := range []int{1, 2, 31} { // at most 32 levels with the body's own: only the type is wrong
		b.refuse(t, b.both(fmt.Sprintf("%d arrays", levels), nest("[", "1", "]", levels), faulty("name"))...)
		b.refuse(t, b.both(fmt.Sprintf("%d objects", levels), nest(`{"a":`, "1", "}", levels), faulty("name"))...)
	}
	deepArray, deepObject := "name"+strings.Repeat("[0]", 31), "name"+strings.Repeat(".a", 31)
	for _, levels := range []int{32, 33, 1_000, 9_999, 10_000, 10_001, 100_000} {
		b.refuse(t, b.both(fmt.Sprintf("%d arrays", levels), nest("[", "", "]", levels), faulty(deepArray))...)
		b.refuse(t, b.both(fmt.Sprintf("%d objects", levels), nest(`{"a":`, "1", "}", levels), faulty(deepObject))...)
		b.refuse(t, b.both(fmt.Sprintf("%d arrays that never end", levels), `{"name":`+strings.Repeat("[", levels), faulty(deepArray))...)
		b.refuse(t, b.both(fmt.Sprintf("%d arrays and nothing else", levels), strings.Repeat("[", levels), faulty(""))...)
		b.refuse(t, b.both(fmt.Sprintf("%d objects that never end", levels), `{"name":`+strings.Repeat(`{"a":`, levels), faulty(deepObject))...)
	}
	for _, width := range []int{1_000, 1_001, 10_000, 75_000} {
		members := make([]string, width)
		for i := range members {
			members[i] = fmt.Sprintf(`"x%d":0`, i)
		}
		inside := strings.Join(members, ",")
		b.refuse(t, b.both(fmt.Sprintf("%d members beside the name", width), `{"name":"a",`+inside+`}`, faulty(""))...)
		b.refuse(t, b.both(fmt.Sprintf("%d members inside", width), `{"name":"a","x":{`+inside+`}}`, faulty("x"))...)
	}
	for _, width := range []int{10_000, 10_001, 500_000} {
		items := strings.TrimSuffix(strings.Repeat("0,", width), ",")
		b.refuse(t, b.both(fmt.Sprintf("%d items for the name", width), `{"name":[`+items+`]}`, faulty("name"))...)
		b.refuse(t, b.both(fmt.Sprintf("%d items in an unknown field", width), `{"name":"a","x":[`+items+`]}`, faulty("x"))...)
	}
	large := refusal{413, "invalid_request_error", "request_too_large", ""}
	b.refuse(t, b.both("a million items", `{"name":[`+strings.Repeat("0,", 1_000_000)+`0]}`, large)...)
	b.refuse(t, b.both("a million members", `{"name":{`+strings.Repeat(`"":0,`, 1_000_000)+`"":0}}`, large)...)
	wide := strings.TrimSuffix(strings.Repeat(`["",{}],`, 9_000), ",")
	b.refuse(t, b.both("27,000 small values", `{"name":[`+wide+`]}`, faulty(""))...)
}

func badNumbers(t *testing.T, b *badInputFixture) {
	numbers := map[string]string{ // sent as the name, which must be a string
		"not a number at all":       "NaN Infinity -Infinity +Infinity inf 1#INF 1_000 0x10 0b1 0o7 1n 1f 1L ½ ١ １",
		"not as JSON writes it":     "+1 01 -01 00 1. .5 -.5 1.e5 1e 1e+ 1e- 1E1.5 --1 - 1-1 0e 1e1e1",
		"beyond a double":           "1e309 1e400 -1e400 1e131071 1e999999999 1e9223372036854775807 9e308 1e-400 0.1e-400 1e-999999999 4.9e-325",
		"with too many digits":      "123456789012345678 1234567890123456789 9223372036854775808 18446744073709551616 0.123456789012345678 1.00000000000000000001",
		"with digits without end":   strings.Repeat("9", 1_000) + " 1" + strings.Repeat("0", 1_000) + " 0." + strings.Repeat("0", 1_000) + "1 1." + strings.Repeat("0", 100_000),
		"fine, but not a name":      "0 -0 -0.0 0e0 1 -1 1.5 1e5 1E+5 1e-5 9007199254740991 9007199254740992 9007199254740993 -9007199254740993 1e308 2.5e-308 4294967296 2147483648",
		"an id written as a number": "100000000000001 1000000000000012 10000000000000123",
	}
	for kind, list := range numbers {
		want := faulty("name")
		if strings.HasPrefix(kind, "not a") {
			want = faulty("")
		}
		for number := range strings.FieldsSeq(list) {
			b.refuse(t, b.both(fmt.Sprintf("%s: %.30s", kind, number), `{"name":`+number+`}`, want)...)
			nested := want
			if nested.param != "" && !strings.HasPrefix(kind, "fine") && !strings.HasPrefix(kind, "an id") {
				nested.param = "x.y[1]"
			} else if nested.param != "" {
				nested.param = "x"
			}
			b.refuse(t, b.both(fmt.Sprintf("%s, in an unknown field: %.30s", kind, number), `{"name":"a","x":{"y":[0,`+number+`]}}`, nested)...)
		}
	}
}

// jsonTypes has a value of every type of JSON, and a string that looks like a number.
var jsonTypes = map[string]string{
	"a string": `"x"`, "a number": `1`, "a bool": `true`, "null": `null`, "an array": `["x"]`, "an object": `{"x":"x"}`, "a numeric string": `"1"`,
}

func badTypes(t *testing.T, b *badInputFixture) {
	for kind, value := range jsonTypes {
		isText := strings.HasPrefix(value, `"`)
		for _, field := range []string{"name", "color", "team_id"} {
			if field == "name" && isText {
				continue // a valid type
			}
			with := map[string]json.RawMessage{"name": json.RawMessage(`"fine"`)}
			with[field] = json.RawMessage(value)
			if field == "name" || kind != "null" { // null for an optional field of a POST means that it is not given
				b.refuse(t, b.create(field+" is "+kind, with, faulty(field)))
			}
			b.refuse(t, b.change(field+" is "+kind, with, faulty(field)))
			b.refuse(t, b.change(field+" alone is "+kind, `{"`+field+`":`+value+`}`, faulty(field)))
		}
	}
	b.refuse(t, b.create("color and name are both wrong", `{"color":1,"name":2}`, faulty("color")))
	b.refuse(t, b.create("name and color are both wrong", `{"name":2,"color":1}`, faulty("name")))
	b.refuse(t, b.change("color and name are both wrong", `{"color":1,"name":2}`, faulty("color")))
	b.refuse(t, b.create("missing beats invalid", `{"color":1}`, refusal{400, "invalid_request_error", "missing_required_field", "name"}))

	team := b.Team.String()
	for _, id := range []string{
		"", " ", "x", team[:35], team + "0", strings.ToUpper(team), "{" + team + "}", "urn:uuid:" + team, strings.ReplaceAll(team, "-", ""),
		strings.ReplaceAll(team, "-", "_"), " " + team, team + " ", team + "\n", strings.Replace(team, "0", "g", 1), b.label,
		"lbl_" + team, strings.Replace(team, "0", "\uff10", 1), "../" + team, "null", "1", strings.Repeat("0", 1_000),
	} {
		if id == strings.ToLower(team) {
			continue
		}
		b.refuse(t, b.create(fmt.Sprintf("team_id %.50q", id), map[string]string{"name": "x", "team_id": id}, faulty("team_id")))
	}
	_, foreign := b.server.Org(t)
	for name, id := range map[string]string{
		"of another organization": foreign.String(), "the nil UUID": "00000000-0000-0000-0000-000000000000",
		"all ones": "ffffffff-ffff-ffff-ffff-ffffffffffff", "of another version": "9b2e4a4c-6a0b-4d3e-8f43-3f1c9f0f6f11",
		"the organization's own id": b.Org.String(), "the key's id": b.KeyID.String(),
	} {
		b.refuse(t, b.create("team_id "+name, map[string]string{"name": "x", "team_id": id}, refusal{404, "not_found", "resource_not_found", "team_id"}))
	}
}

// badAssignment sends every field of an answer, and others that a row might have, in a request.
func badAssignment(t *testing.T, b *badInputFixture) {
	resource := b.Get(t, "/labels/"+b.label).Data(t)
	b.logged++
	hoped := maps.Clone(resource)
	for _, field := range []string{
		"org_id", "organization_id", "name_key", "deleted_at", "deleted", "archived_at", "status", "version", "request_id", "data",
		"created_by", "is_admin", "role", "plan", "key_id", "prefix", "__proto__", "constructor", "metadata", "sort", "$set", "",
	} {
		hoped[field] = "x"
	}
	known := []string{"name", "color", "team_id"}
	for _, field := range slices.Sorted(maps.Keys(hoped)) {
		blamed := field
		if field == "" {
			blamed = `""`
		}
		if !slices.Contains(known, field) {
			b.refuse(t, b.create("with "+blamed, map[string]any{"name": "x", field: hoped[field]}, faulty(blamed)))
			b.refuse(t, b.create("with "+blamed+" as null", map[string]any{"name": "x", field: nil}, faulty(blamed)))
		}
		if !slices.Contains(known[:2], field) { // a label cannot change its team
			b.refuse(t, b.change("with "+blamed, map[string]any{"name": "x", field: hoped[field]}, faulty(blamed)))
			b.refuse(t, b.change("with "+blamed+" alone", map[string]any{field: hoped[field]}, faulty(blamed)))
		}
	}
	b.refuse(t, b.create("an answer as it came", resource, faulty("created_at")))
	b.refuse(t, b.change("an answer as it came", resource, faulty("created_at")))
	b.refuse(t, b.create("an answer in its envelope", map[string]any{"name": "x", "data": resource}, faulty("data")))

	for _, field := range []string{"name", "color"} { // fields that may be sent, with their own value
		answer := b.try(t, b.change("", map[string]any{field: resource[field]}, refusal{}))
		require.Equal(t, 200, answer.Status)
		require.Equal(t, resource, answer.Data(t))
	}
}
