package content_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
)

// FuzzParse checks that Parse and Against never panic, that Parse of its own object changes nothing,
// and that it answers the faults of the contract's schema.
func FuzzParse(f *testing.F) {
	for kind, objects := range examples() {
		for _, object := range objects {
			f.Add(kind, []byte(object))
		}
	}
	f.Fuzz(func(t *testing.T, kind string, object []byte) {
		first, err := content.Parse(kind, object)
		if schemas[kind] != nil && json.Valid(object) {
			requireSameAsSchema(t, kind, string(object))
		}
		if err != nil {
			require.NotEmpty(t, fault.Of(err))
			return
		}
		second, err := content.Parse(kind, first.Object)
		require.NoError(t, err)
		require.Equal(t, first, second)
		for _, definition := range definitions() {
			requireCodes(t, first, definition)
		}
	})
}

// FuzzAgainst checks that Against never panics for any components of a template.
func FuzzAgainst(f *testing.F) {
	for _, definition := range definitions() {
		f.Add([]byte(definition.Components), definition.Category, definition.ParameterFormat)
	}
	f.Fuzz(func(t *testing.T, components []byte, category, format string) {
		definition := content.TemplateDefinition{Category: category, ParameterFormat: format, Components: components}
		for _, object := range examples()["template"] {
			requireCodes(t, parsed(t, "template", object), definition)
		}
	})
}

// requireCodes checks that every misfit has a code.
func requireCodes(t *testing.T, one content.Content, definition content.TemplateDefinition) {
	t.Helper()
	_, faults := one.Against(definition)
	for _, misfit := range faults {
		require.NotEmpty(t, misfit.Code)
	}
}
