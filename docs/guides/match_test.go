package guides_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pattern is a string of a guide, in which … stands for anything.
func pattern(shown string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(shown), "…", ".+") + "$")
}

// differs tells how an answer differs from what a guide shows of it, or "". The answer may have more fields and elements.
func differs(shown, got any, at string) string {
	switch shown := shown.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, not an object", at, got)
		}
		for _, name := range slices.Sorted(maps.Keys(shown)) {
			value, ok := object[name]
			if !ok {
				return fmt.Sprintf("%s.%s is missing", at, name)
			}
			if difference := differs(shown[name], value, at+"."+name); difference != "" {
				return difference
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) < len(shown) {
			return fmt.Sprintf("%s is %v, not a list of %d", at, got, len(shown))
		}
		for i := range shown {
			if difference := differs(shown[i], list[i], fmt.Sprintf("%s[%d]", at, i)); difference != "" {
				return difference
			}
		}
	case string:
		if text, ok := got.(string); !ok || !pattern(shown).MatchString(text) {
			return fmt.Sprintf("%s is %v, not %q", at, got, shown)
		}
	default:
		if shown != got {
			return fmt.Sprintf("%s is %v, not %v", at, got, shown)
		}
	}
	return ""
}

// decoded is the JSON of a guide.
func decoded(t *testing.T, one fence) (shown any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(one.text), &shown), "line %d", one.line)
	return shown
}

// last is the last JSON value of an output; nil if there is none.
func last(output string) (value any) {
	for decoder := json.NewDecoder(strings.NewReader(output)); ; {
		var next any
		if err := decoder.Decode(&next); err == io.EOF {
			return value
		} else if err != nil {
			return nil
		}
		value = next
	}
}

// lacks is the first line of a guide that an output does not have, or "".
func lacks(shown, output string) string {
	lines := strings.Split(strings.ReplaceAll(output, "\r\n", "\n"), "\n")
	for line := range strings.Lines(shown) {
		line = strings.TrimSuffix(line, "\n")
		if line != "…" && !slices.ContainsFunc(lines, pattern(line).MatchString) {
			return line
		}
	}
	return ""
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown, got string
		same       bool
	}{
		{`{"a":"x…"}`, `{"a":"xyz","b":1}`, true},
		{`{"a":"x"}`, `{"a":"xyz"}`, false},
		{`{"a":"…"}`, `{"a":null}`, false},
		{`{"a":"…"}`, `{"b":"x"}`, false},
		{`{"a":null}`, `{"a":null}`, true},
		{`{"a":null}`, `{}`, false},
		{`[{"a":1}]`, `[{"a":1},{"a":2}]`, true},
		{`[{"a":1}]`, `[]`, false},
		{`{"a":{"b":true}}`, `{"a":{"b":false}}`, false},
		{`{"a":{}}`, `{"a":[]}`, false},
	} {
		require.Equal(t, c.same, differs(last(c.shown), last(c.got), "") == "", "%s in %s", c.shown, c.got)
	}
	require.Empty(t, lacks("b …\n…\na\n", "a\r\nb c\n"))
	require.Equal(t, "b", lacks("a\nb\n", "a\nb c\n"))
}
