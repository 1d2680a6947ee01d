package generate

import (
	"encoding/json"
	"net/http"
	"strings"
)

// fault breaks a request in one place. It returns false if the request has no such place.
type fault struct {
	name  string
	apply func(g *Generator, d *draft) bool
}

// breakIt applies a fault of any kind that fits. Most faults of requests with a body are in the body.
func (g *Generator) breakIt(d *draft) {
	all := elsewhere()
	if body := d.tree != nil || d.raw != nil; body && g.chance(75) {
		all = inBody()
	}
	for range 50 {
		if chosen := pick(g, all); chosen.apply(g, d) {
			d.Fault = chosen.name
			return
		}
	}
}

func inBody() []fault {
	return []fault{
		{"a member is missing", func(g *Generator, d *draft) bool {
			return g.change(d, func(s slot) bool { return s.remove != nil }, func(s slot) { s.remove() })
		}},
		{"a value of another type", func(g *Generator, d *draft) bool {
			others := []any{"x", json.Number("1"), json.Number("1.5"), true, []any{"x"}, []any{}, map[string]any{"x": "x"}, map[string]any{}, "1"}
			return g.change(d, nil, func(s slot) { s.set(pick(g, others)) })
		}},
		{"null", func(g *Generator, d *draft) bool {
			return g.change(d, nil, func(s slot) { s.set(nil) })
		}},
		{"a text that is none of the values", func(g *Generator, d *draft) bool {
			return g.change(d, isText, func(s slot) { s.set(pick(g, append(words(), "no_such_value", "ACTIVE", "-1", "true"))) })
		}},
		{"a text that is too long", func(g *Generator, d *draft) bool {
			return g.change(d, isText, func(s slot) { s.set(strings.Repeat("x", pick(g, []int{61, 256, 513, 1_025, 4_097, 20_000, 70_000}))) })
		}},
		{"a text that is too short", func(g *Generator, d *draft) bool {
			return g.change(d, isText, func(s slot) { s.set(pick(g, []string{"", " ", "\t\n", "\u200b", "\u00a0"})) })
		}},
		{"a text with odd characters", func(g *Generator, d *draft) bool {
			return g.change(d, isText, func(s slot) {
				s.set(pick(g, []string{"a\x00b", "\u202eabc", "\ufffe", "\U0010ffff", "a\u0301\u0301", "\ufeff", "\x7f\x1b"}))
			})
		}},
		{"a huge number", func(g *Generator, d *draft) bool {
			huge := []json.Number{"1e400", "-1e400", "123456789012345678901234567890", "9223372036854775808", "-1", "0", "1e-400", "2147483648", "0.1"}
			return g.change(d, nil, func(s slot) { s.set(pick(g, huge)) })
		}},
		{"an unknown member", func(g *Generator, d *draft) bool {
			return g.change(d, func(s slot) bool { return s.isObject() }, func(s slot) {
				object(s.value)[pick(g, []string{"unknown", "", "__proto__", "id", "org_id", "ünknown", strings.Repeat("n", 1_000)})] = "x"
			})
		}},
		{"a long list", func(g *Generator, d *draft) bool {
			return g.change(d, func(s slot) bool { return len(array(s.value)) > 0 }, func(s slot) {
				many := make([]any, pick(g, []int{11, 101, 1_001, 10_001}))
				for i := range many {
					many[i] = array(s.value)[0]
				}
				s.set(many)
			})
		}},
		{"deep nesting", func(g *Generator, d *draft) bool {
			deep := any("x")
			for range pick(g, []int{20, 40, 200}) {
				deep = pick(g, []any{[]any{deep}, map[string]any{"x": deep}})
			}
			return g.change(d, nil, func(s slot) { s.set(deep) })
		}},
		{"a body that is no JSON", func(g *Generator, d *draft) bool { return d.tree != nil && d.become(g.notJSON(d)) }},
		{"a body that is no object", func(g *Generator, d *draft) bool {
			return d.tree != nil && d.become([]byte(pick(g, []string{`[]`, `null`, `"x"`, `1`, `true`, `[{}]`, `{}`})))
		}},
		{"a broken form", func(g *Generator, d *draft) bool {
			return d.tree == nil && d.raw != nil && d.become(pick(g, [][]byte{d.raw[:len(d.raw)/2], []byte("--x--"), {}, []byte(`{"file":"x"}`), d.raw[10:]}))
		}},
		{"a large body", func(g *Generator, d *draft) bool {
			return g.chance(10) && d.tree != nil && d.become([]byte(`{"name":"`+strings.Repeat("x", 1<<20)+`"}`))
		}},
		{"no body", func(_ *Generator, d *draft) bool {
			had := d.tree != nil || d.raw != nil
			d.tree, d.raw = nil, nil
			return had
		}},
		{"another content type", func(g *Generator, d *draft) bool {
			types := []string{
				"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/json; charset=utf-8", "x",
				"multipart/form-data", "multipart/form-data; boundary=x", "application/xml", "application/json, text/plain",
			}
			d.Header.Set("Content-Type", pick(g, types))
			return d.tree != nil || d.raw != nil
		}},
	}
}

func elsewhere() []fault {
	return []fault{
		{"a body where none is taken", func(g *Generator, d *draft) bool {
			if d.tree != nil || d.raw != nil {
				return false
			}
			d.Header.Set("Content-Type", "application/json")
			return d.become([]byte(pick(g, []string{`{}`, `{"x":1}`, `[]`, `x`, `null`})))
		}},
		{"a bad id in the path", badSegment},
		{"a bad query", badQuery},
		{"a bad header", badHeader},
		{"a bad key", badKey},
		{"another method", func(g *Generator, d *draft) bool {
			other := pick(g, []string{"GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "PURGE"})
			changed := other != d.Method
			d.Method = other
			return changed
		}},
	}
}

func (d *draft) become(raw []byte) bool {
	d.raw = raw
	return true
}

// notJSON breaks the text of a body.
func (g *Generator) notJSON(d *draft) []byte {
	text := string(d.body())
	half := text[:g.random.IntN(max(1, len(text)))]
	return []byte(pick(g, []string{
		half, text + text, text + ",", "\ufeff" + text, "\x00" + text, "'" + text + "'", strings.ReplaceAll(text, `"`, "'"), "{", "}", `{"a":1,}`,
		`{"a":1,"a":2}`, `{a:1}`, `{"a":NaN}`, `{"a":01}`, `{"a":"` + "\xff\xfe" + `"}`, `{"a":"\ud800"}`, `{"a":"\u0000"}`, strings.Repeat("[", 5_000), "// x\n" + text,
	}))
}

func badSegment(g *Generator, d *draft) bool {
	var places []int
	for i, segment := range d.segments {
		if strings.ContainsAny(segment, "0123456789") || segment == "order_ready" {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return false
	}
	at := pick(g, places)
	old := d.segments[at]
	d.segments[at] = pick(g, []string{
		old + "0", strings.ToLower(old), "x", "0", "-1", "%20", "%00", "%ff", "%2e%2e", "%2F", "..%2f..", strings.Repeat("9", 300), "null", "'", "%E2%80%AE",
		"lbl_01M6DRK2Y03Y667HMTRQGBYY0B", "msg_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "ctc_ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "100000000000999", "replay", "sync", "",
		"00000000-0000-0000-0000-000000000000", "{id}", "%7Bid%7D", "*",
	})
	return true
}

func badQuery(g *Generator, d *draft) bool {
	more := []string{
		"unknown=1", "limit=0", "limit=101", "limit=x", "limit=", "limit=1e3", "limit=99999999999999999999", "cursor=x", "cursor=", "cursor=%00", "limit=1&limit=2",
		"%", "%zz=1", "x=%zz", "created_after=yesterday", "created_after=2026-13-01T00:00:00Z", "updated_since=2026-01-01", "created_before=-1", "status=nope",
		"status=", "unread=maybe", "label_id=x", "contact_id=lbl_01M6DRK2Y03Y667HMTRQGBYY0B", "email=x", "q=", "q=%00", "q=%ff", "q=" + strings.Repeat("x", 2_000),
		"phone_number=x", "event_type=nope", "language=", "language=x%00", "assigned_to=x", ";", "a=b;c=d", "q=%25%5F", "direction=up", "type=nope", "bsuid=x", "username=%20",
	}
	d.query = append(d.query, pick(g, more))
	return true
}

func badHeader(g *Generator, d *draft) bool {
	bad := [][2]string{
		{"Idempotency-Key", strings.Repeat("k", 256)},
		{"Idempotency-Key", "a b"},
		{"Idempotency-Key", "ключ"},
		{"Idempotency-Key", ""},
		{"If-None-Match", `W/"x`},
		{"If-None-Match", "*"},
		{"If-None-Match", strings.Repeat(`"x",`, 500)},
		{"Accept", "text/html"},
		{"Accept", "x"},
		{"Accept-Encoding", "br;q=x"},
		{"Content-Encoding", "gzip"},
		{"X-HTTP-Method-Override", "DELETE"},
		{"Range", "bytes=0-1"},
		{"X-Padding", strings.Repeat("x", 17<<10)},
		{"X-Forwarded-For", "x"},
		{"Traceparent", "00-x-y-01"},
		{"X-Request-Id", "mine"},
		{"Origin", "https://evil.example"},
		{"Te", "trailers"},
	}
	chosen := pick(g, bad)
	d.Header[http.CanonicalHeaderKey(chosen[0])] = []string{chosen[1]}
	if chosen[0] == "Idempotency-Key" && g.chance(20) {
		d.Header["Idempotency-Key"] = []string{"k1", "k2"}
	}
	return true
}

func badKey(g *Generator, d *draft) bool {
	d.Header["Authorization"] = pick(g, [][]string{
		nil,
		{""},
		{"Bearer"},
		{"Bearer "},
		{"Basic eDp5"},
		{"Bearer svc_live_" + strings.Repeat("A", 24)},
		{"bearer " + g.key[:len(g.key)-1]},
		{g.key},
		{"Bearer " + g.key, "Bearer x"},
		{"Bearer " + g.key + " "},
		{"Bearer\t" + g.key},
		{"Bearer " + strings.ToUpper(g.key)},
	})
	return true
}

// slot is a value in the body that can be replaced, and removed if it is a member of an object.
type slot struct {
	value  any
	set    func(any)
	remove func()
}

func (s slot) isObject() bool { return object(s.value) != nil }

func isText(s slot) bool {
	_, is := s.value.(string)
	return is
}

// change changes one of the values of the body that fit.
func (g *Generator) change(d *draft, fits func(slot) bool, apply func(slot)) bool {
	if d.tree == nil || d.raw != nil {
		return false
	}
	var all []slot
	slots(slot{value: d.tree, set: func(value any) { d.tree = value }}, func(s slot) {
		if fits == nil || fits(s) {
			all = append(all, s)
		}
	})
	if len(all) == 0 {
		return false
	}
	apply(pick(g, all))
	return true
}

// slots visits a value and those inside of it.
func slots(s slot, visit func(slot)) {
	visit(s)
	if inner := object(s.value); inner != nil {
		for _, name := range names(inner) {
			slots(slot{value: inner[name], set: func(value any) { inner[name] = value }, remove: func() { delete(inner, name) }}, visit)
		}
	}
	for i, item := range array(s.value) {
		slots(slot{value: item, set: func(value any) { array(s.value)[i] = value }}, visit)
	}
}
