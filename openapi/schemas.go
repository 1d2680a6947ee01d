package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-chat/parley/internal/platform/jsonin"
)

// resource is the document's URL for the compiler. It is never fetched.
const resource = "parley:///openapi.json"

// schemas compiles schemas of the document. The compiler caches them.
type schemas struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

func newSchemas(document []byte) (*schemas, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(offline{})
	compiler.AssertFormat()
	compiler.RegisterFormat(jsonin.Email())
	compiler.RegisterVocabulary(jsonin.ErrorCodes())
	compiler.RegisterVocabulary(jsonin.Rules())
	compiler.AssertVocabs()
	if err := compiler.AddResource(resource, value); err != nil {
		return nil, err
	}
	return &schemas{compiler: compiler}, nil
}

// offline refuses references to other documents, so that nothing is read from files or the network.
type offline struct{}

func (offline) Load(url string) (any, error) {
	return nil, fmt.Errorf("the contract refers to %s, outside of itself", url)
}

var errNoSchema = errors.New("openapi: no such schema")

func (s *schemas) compile(p place) (*jsonschema.Schema, error) {
	if !p.exists() {
		return nil, errNoSchema
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compiler.Compile(resource + "#" + p.pointer)
}

// primaryType is the JSON type that a schema requires, ignoring null. It is string when the schema
// names none.
func primaryType(schema *jsonschema.Schema) string {
	if found := declaredType(schema, maxReferences); found != "" {
		return found
	}
	return "string"
}

func declaredType(schema *jsonschema.Schema, depth int) string {
	if schema == nil || depth == 0 {
		return ""
	}
	if schema.Types != nil {
		for _, name := range schema.Types.ToStrings() {
			if name != "null" {
				return name
			}
		}
	}
	if schema.Enum != nil {
		return typeOf(schema.Enum.Values[0])
	}
	if schema.Const != nil {
		return typeOf(*schema.Const)
	}
	related := append([]*jsonschema.Schema{schema.Ref}, schema.AllOf...)
	related = append(append(related, schema.AnyOf...), schema.OneOf...)
	for _, other := range related {
		if found := declaredType(other, depth-1); found != "" {
			return found
		}
	}
	return ""
}

func typeOf(value any) string {
	switch value.(type) {
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	default:
		return "string"
	}
}
