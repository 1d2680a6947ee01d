package jsonin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	ruleUnknown = "is not a known field"
	// maxListed is the largest number of accepted values in a sentence.
	maxListed = 25
)

// sentence returns what would be accepted, as the text after "The field `name`".
func (a answer) sentence(f finding, levels [][]*jsonschema.Schema) string {
	schema := named(levels[len(levels)-1], f.schema)
	if rule := ruleOf(schema); rule != "" && ruled(f.kind) {
		return rule
	}
	switch k := f.kind.(type) {
	case *kind.AdditionalProperties, *kind.FalseSchema:
		return ruleUnknown
	case *kind.Type:
		return "must be " + alternatives(k.Want)
	case *kind.Enum:
		return acceptedValues(k.Want)
	case *kind.Const:
		return "must be " + shown(k.Want)
	case *kind.Format:
		return formatRule(k.Want)
	case *kind.Pattern:
		return "does not have the form that the contract describes"
	case *kind.MinLength, *kind.MaxLength:
		return span("must be", schema.MinLength, schema.MaxLength, "character")
	case *kind.MinItems, *kind.MaxItems:
		return span("must have", schema.MinItems, schema.MaxItems, "item")
	case *kind.MinProperties:
		return fewMembers(schema)
	case *kind.MaxProperties:
		return span("must have", schema.MinProperties, schema.MaxProperties, "member")
	case *kind.UniqueItems:
		return "repeats an earlier item"
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return "does not contain the items that it must have"
	case *kind.Minimum, *kind.Maximum, *kind.ExclusiveMinimum, *kind.ExclusiveMaximum:
		return interval(schema)
	case *kind.MultipleOf:
		return "must be a multiple of " + rational(k.Want)
	case *kind.PropertyNames:
		return a.nameRule(f, levels)
	case *kind.Not:
		return "has a combination of values that is not accepted"
	case *kind.OneOf:
		return "fits more than one of the accepted forms; send exactly one"
	}
	return "has a value that is not accepted"
}

// ruled tells that the rule of a schema describes such a fault better than the keyword.
func ruled(of jsonschema.ErrorKind) bool {
	switch of.(type) {
	case *kind.Pattern, *kind.Format, *kind.Minimum, *kind.Maximum, *kind.MinLength, *kind.MaxLength:
		return true
	}
	return false
}

var typeNames = map[string]string{
	"null": "null", "boolean": "true or false", "number": "a number", "integer": "a whole number",
	"string": "a string", "array": "an array", "object": "an object",
}

// alternatives joins types with "or", null last.
func alternatives(types []string) string {
	var words []string
	for _, name := range types {
		if word := typeNames[name]; name != "null" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if slices.Contains(types, "null") {
		words = append(words, "null")
	}
	return strings.Join(words, " or ")
}

func acceptedValues(values []any) string {
	var words []string
	for _, value := range values {
		if word := shown(value); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	switch {
	case len(words) == 1:
		return "must be " + words[0]
	case len(words) > maxListed:
		return fmt.Sprintf("must be one of %d values: %s, ...", len(words), strings.Join(words[:maxListed], ", "))
	}
	return "must be one of " + strings.Join(words, ", ")
}

// shown prints a value of a schema.
func shown(value any) string {
	if text, ok := value.(string); ok && text != "" {
		return text
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return "the value in the contract"
	}
	return bounded(string(encoded))
}

var formatRules = map[string]string{
	"email":         "must be an email address, for example ana@example.com",
	"uri":           "must be a valid absolute URL",
	"uri-reference": "must be a valid URL",
	"date-time":     "must be a time as in 2026-01-31T12:00:00Z",
	"date":          "must be a date as in 2026-01-31",
	"time":          "must be a time of day as in 12:00:00Z",
	"uuid":          "must be a UUID",
	"hostname":      "must be a valid host name",
	"ipv4":          "must be a valid IPv4 address",
	"ipv6":          "must be a valid IPv6 address",
	"regex":         "must be a valid regular expression",
}

func formatRule(format string) string {
	if rule, ok := formatRules[format]; ok {
		return rule
	}
	return "must be a valid " + format
}

// span describes a range of counts; either end may be open.
func span(verb string, lowest, highest *int, noun string) string {
	switch {
	case lowest != nil && highest != nil && *lowest == *highest:
		return fmt.Sprintf("%s exactly %s", verb, counted(*lowest, noun))
	case highest != nil && lowest != nil && *lowest > 0:
		return fmt.Sprintf("%s %s to %s", verb, thousands(*lowest), counted(*highest, noun))
	case highest != nil:
		return fmt.Sprintf("%s at most %s", verb, counted(*highest, noun))
	case lowest != nil && *lowest == 1:
		return "must not be empty"
	case lowest != nil:
		return fmt.Sprintf("%s at least %s", verb, counted(*lowest, noun))
	}
	return "has a length that is not accepted"
}

func counted(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return thousands(count) + " " + noun + "s"
}

// thousands groups digits, because numbers such as 1048576 are hard to read.
func thousands(count int) string {
	digits := strconv.Itoa(count)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// fewMembers lists the members of which at least one is required, for the caller of an empty PATCH.
func fewMembers(schema *jsonschema.Schema) string {
	names := slices.Sorted(maps.Keys(schema.Properties))
	if len(names) == 0 || schema.MinProperties == nil || *schema.MinProperties != 1 {
		return span("must have", schema.MinProperties, schema.MaxProperties, "member")
	}
	if len(names) > maxListed {
		names = append(names[:maxListed], "...")
	}
	return "must have at least one of " + strings.Join(names, ", ")
}
