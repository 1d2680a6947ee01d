package jsonin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxFindings is the number of faults that are collected. With more faults in a body, the one
// returned may not be the first.
const maxFindings = 1_000

// gather flattens the validator's tree of errors into findings, each at the value that the caller
// must change.
func (a answer) gather(found []finding, e *jsonschema.ValidationError) []finding {
	if len(found) >= maxFindings {
		return found
	}
	base := finding{at: e.InstanceLocation, kind: e.ErrorKind, schema: e.SchemaURL, weight: wrong}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return appendMissing(found, base, k.Missing)
	case *kind.DependentRequired:
		return appendMissing(found, base, k.Missing)
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			found = append(found, base.below(name))
		}
		return found
	case *kind.UniqueItems:
		return append(found, base.below(strconv.Itoa(k.Duplicates[1])))
	case *kind.PropertyNames:
		base.at = a.holder(e.InstanceLocation, k.Property)
		for _, cause := range e.Causes {
			base.causes = a.gather(base.causes, cause)
		}
		return append(found, base.below(k.Property))
	case *kind.FalseSchema:
		if strings.HasSuffix(e.SchemaURL, "/unevaluatedProperties") {
			base.weight = doubtful
		}
		return append(found, base)
	case *kind.AnyOf, *kind.OneOf:
		if len(e.Causes) > 0 {
			return append(found, a.closest(e)...)
		}
		return append(found, base)
	case *kind.Contains, *kind.MinContains:
		return append(found, base)
	}
	if len(e.Causes) == 0 {
		return append(found, base)
	}
	for _, cause := range e.Causes {
		found = a.gather(found, cause)
	}
	return found
}

func appendMissing(found []finding, base finding, names []string) []finding {
	for _, name := range names {
		base.member, base.weight = name, absent
		found = append(found, base)
	}
	return found
}

func (f finding) below(token string) finding {
	f.at = append(slices.Clone(f.at), token)
	return f
}

// holder finds the object that has a member with a bad name. The location in the validator's error
// cannot be used, because its slice is shared and a later sibling may have overwritten it.
func (a answer) holder(at []string, name string) []string {
	if object, ok := lookup(a.value, at).(map[string]any); ok {
		if _, ok := object[name]; ok {
			return at
		}
	}
	if found := objectWith(a.value, len(at), name); found != nil {
		return found
	}
	return nil
}

func lookup(value any, at []string) any {
	for _, token := range at {
		switch container := value.(type) {
		case map[string]any:
			value = container[token]
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || index >= len(container) {
				return nil
			}
			value = container[index]
		default:
			return nil
		}
	}
	return value
}

// objectWith returns the path of an object, depth levels down, that has a member of that name.
func objectWith(value any, depth int, name string) []string {
	switch container := value.(type) {
	case map[string]any:
		if depth == 0 {
			if _, ok := container[name]; ok {
				return []string{}
			}
			return nil
		}
		for token, inner := range container {
			if at := objectWith(inner, depth-1, name); at != nil {
				return append([]string{token}, at...)
			}
		}
	case []any:
		if depth == 0 {
			return nil
		}
		for index, inner := range container {
			if at := objectWith(inner, depth-1, name); at != nil {
				return append([]string{strconv.Itoa(index)}, at...)
			}
		}
	}
	return nil
}
