package openapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/openapi"
)

// samples are the commands in a served document: by `GET /path`, and by the name of the example that they send.
func samples(t *testing.T, contract *openapi.Contract) map[string]map[string]string {
	t.Helper()
	served, err := contract.Serving(contract.Operations(), "https://api.example/v1")
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(served, &document))
	all := map[string]map[string]string{}
	for _, one := range contract.Operations() {
		var operation map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(document.Paths[one.Path][strings.ToLower(one.Method)], &operation))
		var shown []struct{ Lang, Label, Example, Source string }
		require.NoError(t, json.Unmarshal(operation["x-codeSamples"], &shown))
		sources := map[string]string{}
		for _, sample := range shown {
			require.Equal(t, "curl curl", sample.Lang+" "+sample.Label)
			sources[sample.Example] = sample.Source
		}
		all[one.Method+" "+one.Path] = sources
	}
	return all
}

func TestServing_Samples(t *testing.T) {
	t.Parallel()
	contract, err := openapi.LoadFrom([]byte(`
paths:
  /apes/{ape_id}/friends/{id}:
    parameters:
      - { name: ape_id, in: path, required: true, example: "17", schema: { type: string } }
      - { name: id, in: path, required: true, schema: { type: string } }
    get: { security: [] }
    delete: { operationId: unfriend }
    patch: { requestBody: { content: { application/json: { example: { name: O'Hara & <Co> } } } } }
  /apes:
    post:
      requestBody:
        content:
          application/json:
            examples:
              young: { value: { team_id: t1, name: Bo, parts: [{ text: a }, { example: { header_url: "https://a.example/b" } }] } }
              old: { $ref: "#/components/examples/Old" }
  /photos:
    post:
      requestBody:
        content:
          multipart/form-data:
            schema: { required: [file, title], properties: { file: { format: binary }, title: {}, team_id: {} } }
            example: { file: bytes, title: A tree, team_id: t1 }
components:
  examples:
    Old: { value: { name: Al, expires_at: 2020-01-01T00:00:00.000Z } }
`))
	require.NoError(t, err)
	friend := `"https://api.example/v1/apes/17/friends/$ID"`
	key := " \\\n" + `  -H "Authorization: Bearer $PARLEY_KEY"`
	body := key + " \\\n" + `  -H "Content-Type: application/json"` + " \\\n"
	require.Equal(t, map[string]map[string]string{
		"GET /apes/{ape_id}/friends/{id}":    {"": "curl " + friend},
		"DELETE /apes/{ape_id}/friends/{id}": {"": "curl -X DELETE " + friend + key},
		"PATCH /apes/{ape_id}/friends/{id}": {
			"": "curl -X PATCH " + friend + body + "  -d '{\n" + `    "name": "O'\''Hara & <Co>"` + "\n  }'",
		},
		"POST /apes": {
			"young": `curl "https://api.example/v1/apes"` + body +
				"  -d '{\n" + `    "name": "Bo",` + "\n" + `    "parts": [` + "\n      {\n" + `        "text": "a"` + "\n      }\n    ]\n  }'",
			"old": `curl "https://api.example/v1/apes"` + body + "  -d '{\n" + `    "name": "Al"` + "\n  }'",
		},
		"POST /photos": {
			"": `curl "https://api.example/v1/photos"` + key + " \\\n" + `  -F "file=@photo.jpg"` + " \\\n" + `  -F "title=A tree"`,
		},
	}, samples(t, contract))
}

func TestServing_Events_TitlesStartWithTheirNames(t *testing.T) {
	t.Parallel()
	loaded, err := openapi.Load()
	require.NoError(t, err)
	served, err := loaded.Serving(loaded.Operations(), "https://api.example/v1")
	require.NoError(t, err)
	var document struct {
		Webhooks map[string]struct{ Post struct{ Summary string } }
	}
	require.NoError(t, json.Unmarshal(served, &document))
	require.Len(t, document.Webhooks, len(loaded.Webhooks()))
	for name, event := range document.Webhooks {
		require.Regexp(t, "^"+name+": [A-Z]", event.Post.Summary)
	}
}

// TestServing_Samples_RequiredParametersAreInThePath: samples set no query parameters and no headers but their own.
func TestServing_Samples_RequiredParametersAreInThePath(t *testing.T) {
	t.Parallel()
	loaded, err := openapi.Load()
	require.NoError(t, err)
	all := samples(t, loaded)
	for _, operation := range loaded.Operations() {
		for _, parameter := range append(operation.Query, operation.Headers...) {
			require.False(t, parameter.Required, "the curl command of %s lacks %s", operation.ID, parameter.Name)
		}
		sources := all[operation.Method+" "+operation.Path]
		require.NotEmpty(t, sources, operation.ID)
		for name, source := range sources {
			sends := strings.Contains(source, "  -d '{") || strings.Contains(source, "  -F ")
			require.True(t, sends || !operation.BodyRequired, "%s %s: %s", operation.ID, name, source)
		}
	}
}
