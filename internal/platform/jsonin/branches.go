package jsonin

import (
	"cmp"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// branch is one alternative of anyOf or oneOf, with the reasons why the value does not match it.
type branch struct {
	found []finding
	// mistyped is true when the value has another JSON type than the branch.
	mistyped bool
	// rejected lists the members whose value selects another branch (`type: image`).
	rejected []finding
	deepest  int
}

// closest returns the findings of the branch that the caller most likely meant. When no branch
// has the value's type, or none has its discriminating member (`type`), it returns the types or
// values that all branches together accept.
func (a answer) closest(e *jsonschema.ValidationError) []finding {
	here := len(e.InstanceLocation)
	branches := make([]branch, 0, len(e.Causes))
	for _, cause := range e.Causes {
		branches = append(branches, newBranch(a.gather(nil, cause), here))
	}
	typed := slices.DeleteFunc(slices.Clone(branches), func(b branch) bool { return b.mistyped })
	if len(typed) == 0 {
		return []finding{anyType(branches)}
	}
	if merged, ok := anyName(typed); ok {
		return []finding{merged}
	}
	return slices.MinFunc(typed, func(x, y branch) int {
		return cmp.Or(
			len(x.rejected)-len(y.rejected),
			len(x.found)-len(y.found),
			y.deepest-x.deepest,
		)
	}).found
}

func newBranch(found []finding, here int) branch {
	b := branch{found: found}
	for _, f := range found {
		b.deepest = max(b.deepest, len(f.at))
		switch f.kind.(type) {
		case *kind.Type:
			b.mistyped = b.mistyped || len(f.at) == here
		case *kind.Const, *kind.Enum:
			if len(f.at) == here+1 {
				b.rejected = append(b.rejected, f)
			}
		}
	}
	return b
}

// anyType merges "must be a string" and "must be null" into one sentence.
func anyType(branches []branch) finding {
	merged := kind.Type{}
	var first finding
	for _, b := range slices.Backward(branches) {
		for _, f := range b.found {
			if k, ok := f.kind.(*kind.Type); ok {
				first, merged.Got = f, k.Got
				merged.Want = append(slices.Clone(k.Want), merged.Want...)
				break
			}
		}
	}
	first.kind = &merged
	return first
}

// anyName merges the accepted values of the one member by which every branch was rejected.
func anyName(branches []branch) (finding, bool) {
	var accepted []any
	for _, b := range branches {
		if len(b.rejected) != 1 || !slices.Equal(b.rejected[0].at, branches[0].rejected[0].at) {
			return finding{}, false
		}
		switch k := b.rejected[0].kind.(type) {
		case *kind.Const:
			accepted = append(accepted, k.Want)
		case *kind.Enum:
			accepted = append(accepted, k.Want...)
		}
	}
	merged := branches[0].rejected[0]
	merged.kind = &kind.Enum{Want: accepted}
	return merged, true
}
