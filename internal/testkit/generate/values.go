package generate

import (
	"encoding/json"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// maxDepth is how deep values are nested. Schemas that refer to each other would otherwise never end.
const maxDepth = 8

// value makes a value for a schema. Most values fit; rules that several fields share are not looked at.
func (g *Generator) value(schema any, depth int) any {
	s := object(schema)
	if name, ok := s["$ref"].(string); ok {
		if known := g.known[name[strings.LastIndex(name, "/")+1:]]; len(known) > 0 && g.chance(95) {
			return pick(g, known)
		}
		return g.value(overlay(g.follow(name), s), depth)
	}
	if shown := array(s["examples"]); len(shown) > 0 && g.chance(30) {
		return g.alive(pick(g, shown))
	}
	if constant, ok := s["const"]; ok {
		return constant
	}
	if values := array(s["enum"]); len(values) > 0 {
		return pick(g, values)
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if choices := array(s[keyword]); len(choices) > 0 {
			return join(g.plain(s, depth), g.value(pick(g, choices), depth))
		}
	}
	return g.plain(s, depth)
}

// plain makes a value for the keywords of a schema that offer no choice.
func (g *Generator) plain(s map[string]any, depth int) any {
	var made any
	for _, part := range array(s["allOf"]) {
		made = join(made, g.value(part, depth))
	}
	kind := typeOf(g, s)
	switch {
	case kind == "object" || s["properties"] != nil:
		return join(made, g.object(s, depth))
	case made != nil:
		return made
	}
	switch kind {
	case "array":
		return g.array(s, depth)
	case "integer", "number":
		return g.number(s)
	case "boolean":
		return g.chance(50)
	case "null":
		return nil
	default:
		return g.text(s)
	}
}

// typeOf picks one of the types of a schema, null rarely.
func typeOf(g *Generator, s map[string]any) string {
	if kind, ok := s["type"].(string); ok {
		return kind
	}
	kinds := array(s["type"])
	if len(kinds) == 0 {
		return "string"
	}
	if g.chance(80) {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind any) bool { return kind == "null" })
	}
	kind, _ := pick(g, kinds).(string)
	return kind
}

func (g *Generator) object(s map[string]any, depth int) map[string]any {
	made := map[string]any{}
	required := array(s["required"])
	for _, name := range names(object(s["properties"])) {
		needed := slices.Contains(required, any(name))
		if !needed && (depth >= maxDepth || !g.chance(40)) {
			continue
		}
		if known := g.known[name]; len(known) > 0 && g.chance(90) {
			made[name] = pick(g, known)
			continue
		}
		made[name] = g.value(object(s["properties"])[name], depth+1)
	}
	if s["properties"] == nil && s["additionalProperties"] != false {
		for range g.random.IntN(4) {
			made[g.word(1+g.random.IntN(20))] = pick(g, []any{"x", json.Number("1"), true, nil, []any{}, map[string]any{}})
		}
	}
	return made
}

func (g *Generator) array(s map[string]any, depth int) []any {
	least, most := bound(s, "minItems", 0), bound(s, "maxItems", 1_000)
	count := min(most, least+g.random.IntN(3))
	if depth >= maxDepth {
		count = least
	}
	made := []any{}
	for range count {
		made = append(made, g.value(s["items"], depth+1))
	}
	return made
}

func (g *Generator) number(s map[string]any) any {
	least, most := bound(s, "minimum", -1_000), bound(s, "maximum", 1_000_000)
	return pick(g, []any{least, most, least + g.random.IntN(max(1, most-least))})
}

func (g *Generator) text(s map[string]any) string {
	switch s["format"] {
	case "date-time":
		return pick(g, []string{"2026-03-14T09:26:53.589Z", "2026-03-21T10:00:00Z", "2025-12-31T23:59:59+01:00", "2026-04-01T00:00:00.000000Z"})
	case "email":
		return g.word(8) + "@example.com"
	case "uri":
		return "https://harbour.example/" + g.word(6)
	case "uuid":
		return "01a05bfb-73e8-7196-9c08-" + pick(g, []string{"ce17cdd42c79", "000000000000"})
	}
	least, most := bound(s, "minLength", 0), bound(s, "maxLength", 300)
	if pattern, ok := s["pattern"].(string); ok {
		if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			return g.matching(parsed)
		}
	}
	length := pick(g, []int{least, most, least + g.random.IntN(max(1, min(40, most-least+1)))})
	if g.chance(15) {
		return pick(g, words())
	}
	return g.word(length)
}

// words are texts with characters of several bytes, directions and widths.
func words() []string {
	return []string{"Café Ação", "سلام", "\u65e5\u672c\u8a9e", "👩‍👩‍👧‍👦 family", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤", "line\nbreak\ttab", "  blanks  ", "O'Brien; DROP TABLE labels;--", "<b>&amp;</b>", "{{1}} {{name}}"}
}

func (g *Generator) word(length int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789_"
	made := make([]byte, length)
	for i := range made {
		made[i] = letters[g.random.IntN(len(letters))]
	}
	return string(made)
}

// matching makes a text that a pattern matches.
func (g *Generator) matching(re *syntax.Regexp) string {
	var made strings.Builder
	repeat := func(least, most int) {
		for range least + g.random.IntN(max(1, min(most, least+20)-least+1)) {
			made.WriteString(g.matching(re.Sub[0]))
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		at := 2 * g.random.IntN(len(re.Rune)/2)
		low, high := re.Rune[at], min(re.Rune[at+1], unicode.MaxASCII)
		return string(low + rune(g.random.IntN(int(max(1, high-low+1)))))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			made.WriteString(g.matching(sub))
		}
	case syntax.OpAlternate:
		return g.matching(pick(g, re.Sub))
	case syntax.OpStar:
		repeat(0, 10)
	case syntax.OpPlus:
		repeat(1, 10)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 {
			most = re.Min + 10
		}
		repeat(re.Min, most)
	default: // the ends of the text
	}
	return made.String()
}

// bound reads a limit of a schema.
func bound(s map[string]any, keyword string, otherwise int) int {
	number, ok := s[keyword].(json.Number)
	if !ok {
		return otherwise
	}
	value, err := number.Int64()
	if err != nil {
		return otherwise
	}
	return int(value)
}

// overlay is a schema with the keywords that stand beside a reference to it.
func overlay(base, beside map[string]any) map[string]any {
	made := map[string]any{}
	maps.Copy(made, base)
	for name, value := range beside {
		if name != "$ref" {
			made[name] = value
		}
	}
	return made
}

// join merges two objects; the second wins, and wins alone if one of them is no object.
func join(first, second any) any {
	into, from := object(first), object(second)
	if into == nil || from == nil {
		if second == nil {
			return first
		}
		return second
	}
	maps.Copy(into, from)
	return into
}
