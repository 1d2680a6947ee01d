package openapi_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// A fault of a pattern is explained in words: a schema of what callers send that has a pattern has `x-rule` too. The
// header Idempotency-Key has a check of its own.
func TestContract_PatternsOfRequests_HaveRules(t *testing.T) {
	t.Parallel()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(contract(t).JSON()))
	require.NoError(t, err)
	root, seen, patterns := object(document), map[string]bool{}, 0
	var walk func(at string, part any)
	walk = func(at string, part any) {
		switch value := part.(type) {
		case []any:
			for _, inner := range value {
				walk(at, inner)
			}
		case map[string]any:
			if reference, ok := value["$ref"].(string); ok && !seen[reference] {
				seen[reference] = true
				target := any(root)
				for name := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
					target = object(target)[name]
				}
				walk(reference, target)
			}
			if pattern, ok := value["pattern"].(string); ok && pattern != "^[!-~]+$" {
				patterns++
				require.NotEmpty(t, value["x-rule"], "%s: %s", at, pattern)
			}
			for _, inner := range value {
				walk(at, inner)
			}
		}
	}
	for path, item := range object(root["paths"]) {
		walk(path, object(item)["parameters"])
		for method, operation := range object(item) {
			walk(method+" "+path, object(operation)["requestBody"])
			walk(method+" "+path, object(operation)["parameters"])
		}
	}
	require.Greater(t, patterns, 10)
}
