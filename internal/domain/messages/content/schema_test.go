package content_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
	"github.com/parley-chat/parley/openapi"
)

// schemas has the contract's schema of the whole body for each type.
var schemas = compileSchemas()

func compileSchemas() map[string]*jsonschema.Schema {
	contract, err := openapi.Load()
	if err != nil {
		panic(err)
	}
	compiled := map[string]*jsonschema.Schema{}
	for kind := range examples() {
		if compiled[kind], err = contract.Schema("Send" + strings.ToUpper(kind[:1]) + kind[1:]); err != nil {
			panic(err)
		}
	}
	return compiled
}

// overHTTP returns the fault that the edge answers before the domain is asked.
func overHTTP(kind, object string) error {
	document, err := jsonin.Parse([]byte(`{"messaging_product":"chat","to":"+351910000001","type":"` + kind + `","` + kind + `":` + object + `}`))
	if err != nil {
		return err
	}
	return document.Check(schemas[kind])
}

type place struct {
	code  fault.Code
	param string
}

func placeOf(err error) place {
	if found, ok := errors.AsType[*fault.Error](err); ok {
		return place{found.Code, found.Param}
	}
	return place{}
}

// places are the codes and params of faults.
func places(faults []*fault.Error) (all []place) {
	for _, one := range faults {
		all = append(all, placeOf(one))
	}
	return all
}

func requireSameAsSchema(t *testing.T, kind, object string) {
	t.Helper()
	byShape, bySchema := content.ShapeFault(kind, json.RawMessage(object)), overHTTP(kind, object)
	require.Equal(t, placeOf(bySchema), placeOf(byShape), "%s %s: schema says %v, shape says %v", kind, object, bySchema, byShape)
}

// TestShapes_BrokenExamples_SameFaultAsSchema breaks each value of each example in many ways, alone
// and two at a time, and compares the faults with those of the contract's schema.
func TestShapes_BrokenExamples_SameFaultAsSchema(t *testing.T) {
	t.Parallel()
	for kind, objects := range examples() {
		for _, object := range objects {
			requireSameAsSchema(t, kind, object)
			require.NoError(t, overHTTP(kind, object))
			places := paths(object)
			for _, at := range places {
				for _, value := range bad {
					requireSameAsSchema(t, kind, broken(object, at, value))
				}
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 30 {
				once := broken(object, places[random.IntN(len(places))], bad[random.IntN(len(bad))])
				if left := paths(once); len(left) > 0 {
					requireSameAsSchema(t, kind, broken(once, left[random.IntN(len(left))], bad[random.IntN(len(bad))]))
				}
			}
		}
	}
}

const removed = "removed"

// bad has values that some field does not accept, among them a string of each limit and one longer.
var bad = append([]string{
	removed, `null`, `true`, `0`, `-1`, `1.5`, `1.0`, `"0"`, `""`, `"x"`, `{}`, `[]`, `[{}]`, `["x"]`,
	`"ftp://harbour.example/` + long(2048) + `"`, `"http://[::1]/"`, `"http://::1/"`, `"//harbour.example"`, `"mailto:a@harbour.example"`,
	`"http://%zz"`, `[{},{},{},{}]`, `[` + strings.Repeat("{},", 10) + `{}]`,
}, atLimits()...)

func atLimits() []string {
	var texts []string
	for _, limit := range []int{16, 20, 24, 30, 60, 72, 200, 255, 256, 512, 1024, 4096} {
		texts = append(texts, `"`+long(limit)+`"`, `"`+long(limit+1)+`"`)
	}
	return texts
}

// paths returns the names and indexes that lead to each value below the root.
func paths(object string) [][]any {
	var value any
	if json.Unmarshal([]byte(object), &value) != nil {
		return nil
	}
	var all [][]any
	var walk func(value any, path []any)
	walk = func(value any, path []any) {
		switch value := value.(type) {
		case map[string]any:
			names := make([]string, 0, len(value))
			for name := range value {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				inner := append(slices.Clone(path), name)
				all = append(all, inner)
				walk(value[name], inner)
			}
		case []any:
			for i := range value {
				inner := append(slices.Clone(path), i)
				all = append(all, inner)
				walk(value[i], inner)
			}
		}
	}
	walk(value, nil)
	return all
}

// broken returns the object with the value at the path replaced or removed.
func broken(object string, path []any, replacement string) string {
	var change func(raw json.RawMessage, path []any) json.RawMessage
	change = func(raw json.RawMessage, path []any) json.RawMessage {
		if len(path) == 0 {
			return json.RawMessage(replacement)
		}
		var changed any
		switch step := path[0].(type) {
		case string:
			var members map[string]json.RawMessage
			_ = json.Unmarshal(raw, &members)
			if len(path) == 1 && replacement == removed {
				delete(members, step)
			} else {
				members[step] = change(members[step], path[1:])
			}
			changed = members
		case int:
			var items []json.RawMessage
			_ = json.Unmarshal(raw, &items)
			if len(path) == 1 && replacement == removed {
				items = slices.Delete(items, step, step+1)
			} else {
				items[step] = change(items[step], path[1:])
			}
			changed = items
		}
		encoded, err := json.Marshal(changed)
		if err != nil {
			panic(err)
		}
		return encoded
	}
	return string(change(json.RawMessage(object), path))
}
