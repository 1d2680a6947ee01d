// Package generate makes requests from the contract: valid ones, and ones that are broken in one place. The same seed makes
// the same requests.
package generate

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-chat/parley/openapi"
)

// Generator makes requests. It is not safe for concurrent use.
type Generator struct {
	random *rand.Rand
	root   map[string]any
	// known has the values that exist, by the name of a schema, field or parameter (in braces for the path), or by the prefix of
	// an id.
	known map[string][]any
	key   string
}

// Request is a request to an operation, or to what a fault made of it.
type Request struct {
	Operation *openapi.Operation
	// Fault is what is wrong with it; empty for nothing.
	Fault  string
	Method string
	// Target is the escaped path, under the prefix of the version, with the query.
	Target string
	Header http.Header
	Body   []byte
}

// New makes a generator. key is the API key of its requests.
func New(contract *openapi.Contract, seed uint64, key string) (*Generator, error) {
	g := &Generator{random: rand.New(rand.NewPCG(seed, 0)), known: map[string][]any{}, key: key}
	decoder := json.NewDecoder(bytes.NewReader(contract.JSON()))
	decoder.UseNumber()
	return g, decoder.Decode(&g.root)
}

// Know adds values that exist, for a schema or a field. Most requests use one of them.
func (g *Generator) Know(name string, values ...string) {
	for _, value := range values {
		g.known[name] = append(g.known[name], value)
	}
}

// draft is a request that is not put together yet.
type draft struct {
	Request

	segments []string
	query    []string
	// tree is the JSON body; raw replaces it.
	tree any
	raw  []byte
}

// Next makes a request to an operation. Of three requests two are broken.
func (g *Generator) Next(operation *openapi.Operation) Request {
	d := g.valid(operation)
	if g.chance(67) {
		g.breakIt(d)
	}
	target := "/" + strings.Join(d.segments, "/")
	if len(d.query) > 0 {
		target += "?" + strings.Join(d.query, "&")
	}
	d.Target, d.Body = target, d.body()
	return d.Request
}

// body is the raw body, or the tree as JSON; nil for none.
func (d *draft) body() []byte {
	if d.raw != nil || d.tree == nil {
		return d.raw
	}
	encoded, _ := json.Marshal(d.tree) // made of what JSON can say
	return encoded
}

func (g *Generator) valid(operation *openapi.Operation) *draft {
	d := &draft{Request: Request{Operation: operation, Method: operation.Method, Header: http.Header{}}}
	raw := object(object(object(g.root["paths"])[operation.Path])[strings.ToLower(operation.Method)])
	values := map[string]string{}
	beside := array(object(object(g.root["paths"])[operation.Path])["parameters"])
	for _, one := range slices.Concat(beside, array(raw["parameters"])) {
		parameter := object(one)
		if reference, ok := parameter["$ref"].(string); ok {
			parameter = g.follow(reference)
		}
		name, value := parameter["name"].(string), ""
		if parameter["in"] == "path" || g.chance(30) {
			value = g.parameter(parameter)
		}
		switch {
		case parameter["in"] == "path":
			values["{"+name+"}"] = url.PathEscape(value)
		case value == "":
		case parameter["in"] == "query":
			d.query = append(d.query, name+"="+url.QueryEscape(value))
		case printable(value) && !strings.Contains(value, "\n"): // the client refuses to send others
			d.Header.Set(name, value)
		}
	}
	for _, segment := range strings.Split(operation.Path, "/")[1:] {
		if value, is := values[segment]; is {
			segment = value
		}
		d.segments = append(d.segments, segment)
	}
	if !operation.Public {
		d.Header.Set("Authorization", "Bearer "+g.key)
	}
	g.addBody(d, object(object(raw["requestBody"])["content"]))
	return d
}

// parameter makes the text of a parameter. A cursor is hardly ever valid, so that it is left out mostly.
func (g *Generator) parameter(parameter map[string]any) string {
	name, _ := parameter["name"].(string)
	if name == "Idempotency-Key" {
		return pick(g, []string{"k1", "k2", "k3", g.word(20), g.word(20), g.word(255)})
	}
	if name == "cursor" && g.chance(80) {
		return ""
	}
	if parameter["in"] == "path" {
		name = "{" + name + "}"
	}
	if known := g.known[name]; len(known) > 0 && g.chance(95) {
		return pick(g, known).(string)
	}
	text, err := json.Marshal(g.value(parameter["schema"], 0))
	if err != nil {
		return ""
	}
	var plain string
	if json.Unmarshal(text, &plain) == nil {
		return plain
	}
	return string(text)
}

func (g *Generator) addBody(d *draft, content map[string]any) {
	if content["multipart/form-data"] != nil {
		d.raw = g.form(d.Header)
		return
	}
	media := object(content["application/json"])
	if media == nil {
		return
	}
	d.Header.Set("Content-Type", "application/json")
	if example, ok := media["example"]; ok && g.chance(40) {
		d.tree = g.alive(example)
		return
	}
	if shown := object(media["examples"]); len(shown) > 0 && g.chance(60) {
		d.tree = g.alive(object(shown[pick(g, names(shown))])["value"])
		return
	}
	d.tree = g.value(media["schema"], 0)
}

// alive is a copy of an example with ids that exist: a string with a known one's prefix is replaced.
func (g *Generator) alive(example any) any {
	switch value := example.(type) {
	case map[string]any:
		made := map[string]any{}
		for _, name := range names(value) {
			made[name] = g.alive(value[name])
		}
		return made
	case []any:
		made := make([]any, len(value))
		for i := range value {
			made[i] = g.alive(value[i])
		}
		return made
	case string:
		if prefix, _, is := strings.Cut(value, "_"); is && len(g.known[prefix+"_"]) > 0 {
			return pick(g, g.known[prefix+"_"])
		}
	}
	return example
}

// form makes a form with a file.
func (g *Generator) form(header http.Header) []byte {
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	_ = writer.SetBoundary("parley" + g.word(10)) // a word is a valid boundary, and a buffer cannot fail
	if g.chance(30) {
		_ = writer.WriteField("team_id", pick(g, append(g.known["team_id"], "x")).(string))
	}
	part, _ := writer.CreateFormFile("file", pick(g, []string{"a.pdf", "ä.jpg", "../x", ""}))
	_, _ = part.Write([]byte(pick(g, []string{"%PDF-1.7\nbill", "\xff\xd8\xff\xe0\x00\x10JFIF\x00", "plain text", "\x00\x01\x02"})))
	_ = writer.Close()
	header.Set("Content-Type", writer.FormDataContentType())
	return body.Bytes()
}

// follow finds what a reference points to.
func (g *Generator) follow(reference string) map[string]any {
	part := g.root
	for name := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
		part = object(part[name])
	}
	return part
}

// chance is true in so many of a hundred cases.
func (g *Generator) chance(percent int) bool { return g.random.IntN(100) < percent }

func pick[T any](g *Generator, from []T) T { return from[g.random.IntN(len(from))] }

// names are sorted, so that the same seed makes the same requests.
func names(of map[string]any) []string { return slices.Sorted(maps.Keys(of)) }

func object(value any) map[string]any {
	found, _ := value.(map[string]any)
	return found
}

func array(value any) []any {
	found, _ := value.([]any)
	return found
}
