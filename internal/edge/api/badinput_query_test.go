package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func badLimits(t *testing.T, b *badInputFixture) {
	want := refusal{400, "invalid_request_error", "invalid_limit", "limit"}
	for _, limit := range []string{
		"", "0", "-1", "-0", "101", "102", "200", "1000", "1000000000", "2147483647", "2147483648", "4294967297", "9223372036854775807",
		"9223372036854775808", "18446744073709551617", "-9223372036854775809", "1e9", "1e1", "5e0", "5.0", "5.5", "5,0", ".5", "0x5", "0b1", "0o5",
		"+5", "05", "005", "00", " 5", "5 ", "\t5", "5\n", "5\x00", "\x005", "1_0", "1,000", "5;", "5%", "abc", "five", "NaN", "Infinity", "null", "nil",
		"true", "undefined", "[]", "[5]", "{}", `"5"`, "'5'", "5'--", "${5}", "\uff15", "\u0665", "\u2075", "\u00bd", "5\u200b", "\ufeff5", "\U0001d7d3",
		"\xff", "5\xff", strings.Repeat("1", 400), strings.Repeat("0", 10_000) + "5", "--5", "5-", "1e-1", "max", "all", "*",
	} {
		b.refuse(t, badInput{name: fmt.Sprintf("limit %.30q", limit), method: "GET", path: "/labels?limit=" + url.QueryEscape(limit), want: want})
	}
	for name, query := range map[string]string{ // forms that QueryEscape would not write
		"a plus is a blank": "limit=+5", "without an equals sign": "limit", "a second equals sign": "limit==5", "equals inside": "limit=5=5", "a hash": "limit=5%23",
	} {
		b.refuse(t, badInput{name: name, method: "GET", path: "/labels?" + query, want: want})
	}
	for _, twice := range []string{"limit=5&limit=5", "limit=1&limit=2", "limit=5&limit=", "limit&limit", "limit=0&limit=5", "limit=5&%6cimit=5", "limit=1&limit=2&limit=3"} {
		b.refuse(t, badInput{name: "two: " + twice, method: "GET", path: "/labels?" + twice, want: faulty("limit")})
	}
	for _, query := range []string{"limit=1", "limit=2", "limit=25", "limit=99", "limit=100", "limit=%31", "limit=1&", "&limit=1", "%6cimit=1"} {
		require.Equal(t, 200, b.try(t, badInput{name: query, method: "GET", path: "/labels?" + query}).Status, query)
	}
}

func badQueries(t *testing.T, b *badInputFixture) {
	item := "/labels/" + b.label
	routes := []badInput{
		{method: "GET", path: "/labels"},
		{method: "POST", path: "/labels", body: `{"name":"never"}`},
		{method: "GET", path: item},
		{method: "PATCH", path: item, body: `{"name":"never"}`},
		{method: "DELETE", path: item},
		{method: "GET", path: "/me"},
	}
	queries := map[string]string{ // and the param of the error
		"x=1": "x", "x": "x", "x=": "x", "sort=name": "sort", "page=2": "page", "offset=1": "offset", "per_page=5": "per_page", "q=a": "q",
		"name=a": "name", "color=red": "color", "team_id=1": "team_id", "Limit=5": "Limit", "LIMIT=5": "LIMIT", "limit%20=5": "limit ", "%20limit=5": " limit",
		"limit[]=1": "limit[]", "limit%5B%5D=1": "limit[]", "limit[0]=1": "limit[0]", "limit[$gt]=1": "limit[$gt]", "limit.x=1": "limit.x", "cursor[]=x": "cursor[]",
		"Cursor=x": "Cursor", "api_key=x": "api_key", "access_token=x": "access_token", "callback=f": "callback", "fields=id": "fields", "expand[]=team": "expand[]",
		"org_id=1": "org_id", "_method=DELETE": "_method", "utf8=%E2%9C%93": "utf8", "__proto__=1": "__proto__", "x=1&x=2": "x", "x=%00": "x", "x=%ff": "x",
		"x=" + strings.Repeat("a", 10_000): "x", strings.Repeat("n", 10_000) + "=1": strings.Repeat("n", 199) + "…", "x+y=1": "x y", "%78=1": "x",
		"=1": `""`, "=": `""`, "%C3%A9=1": "é", "%F0%9F%98%80": "😀", "a%22b=1": `a"b`, "%00=1": "?", "a%0Ab": "a?b", "%E2%80%AEa": "?a", "%ff=1": "?",
	}
	broken := []string{
		"%", "%z", "%zz", "%2", "x=%", "x=%zz", "x=%2", "x=%u0041", "limit=%", "limit=5%", "limit=%zz", "cursor=%", "%=1", "limit=5;x=1", "a;b", ";", "limit=5&%",
		"limit=5&x=%f", "x=%-1", "%%%",
	}
	for _, route := range routes {
		for query, param := range queries {
			in := route
			in.name, in.path, in.want = fmt.Sprintf("%s %s?%.40s", in.method, withoutID(in.path, b.label), query), in.path+"?"+query, faulty(param)
			b.refuse(t, in)
		}
		for _, query := range broken {
			in := route
			in.name, in.path, in.want = fmt.Sprintf("%s %s?%s", in.method, withoutID(in.path, b.label), query), in.path+"?"+query, faulty("")
			b.refuse(t, in)
		}
		if route.path != "/labels" || route.method != "GET" { // only lists have pages
			for _, query := range []string{"limit=5", "cursor=x"} {
				in := route
				in.name, in.path = fmt.Sprintf("%s %s?%s", in.method, withoutID(in.path, b.label), query), in.path+"?"+query
				in.want = faulty(strings.Split(query, "=")[0])
				b.refuse(t, in)
			}
		}
	}
	for _, public := range []string{"/health", "/openapi.json"} {
		for query, param := range map[string]string{"x=1": "x", "limit=5": "limit", "x=%zz": ""} {
			b.refuse(t, badInput{name: public + "?" + query, method: "GET", path: public + "?" + query, want: faulty(param)})
		}
	}
	for _, query := range []string{"cursor=a&cursor=b", "cursor=&cursor=", "cursor=a&limit=5&cursor=a"} {
		b.refuse(t, badInput{name: query, method: "GET", path: "/labels?" + query, want: faulty("cursor")})
	}
	t.Run("many parameters", func(t *testing.T) {
		for _, query := range []string{
			manyParameters(1_000, "x%d=1&"), manyParameters(2_000, "%dx&"), manyParameters(1_000, "limit=%d&"), strings.Repeat("&", 10_000) + "x",
		} {
			answer := b.try(t, badInput{method: "GET", path: "/labels?" + query})
			require.Equal(t, 400, answer.Status)
			require.Equal(t, "invalid_field_value", answer.Code())
		}
	})
	t.Run("of several unknown parameters the error names the first", func(t *testing.T) {
		for range 20 {
			requireRefusal(t, faulty("d"), b.try(t, badInput{method: "GET", path: "/labels?d=1&c=1&b=1&a=1"}))
		}
	})
	for _, query := range []string{"", "&", "&&&", "limit=5&"} { // queries without parameters
		require.Equal(t, 200, b.try(t, badInput{method: "GET", path: "/labels?" + query}).Status, query)
	}
}

func manyParameters(count int, format string) string {
	var query strings.Builder
	for i := range count {
		query.WriteString(fmt.Sprintf(format, i))
	}
	return query.String()
}

func withoutID(path, label string) string { return strings.ReplaceAll(path, label, "{id}") }
