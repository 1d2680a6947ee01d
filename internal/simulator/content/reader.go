package content

import (
	"fmt"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Reader takes values out of JSON and keeps the first fault; after one, it answers
// zero values, so that a caller may go on and look once at the end.
type Reader struct{ err error }

// Err is the first fault.
func (r *Reader) Err() error { return r.err }

func (r *Reader) fail(code int, details string, args ...any) {
	if r.err == nil {
		r.err = wire.Refusal(code, details, args...)
	}
}

func at(path, name string) string {
	if path == "" {
		return name
	}
	return fmt.Sprintf("%s['%s']", path, name)
}

// Text reads a string of least to most characters; least 0 makes it optional.
func (r *Reader) Text(of object, path, name string, least, most int) string {
	value, given := of[name]
	if r.err != nil || (!given || value == nil) && least == 0 {
		return ""
	}
	text, ok := value.(string)
	switch length := utf8.RuneCountInString(text); {
	case !given || value == nil || ok && length == 0 && least > 0:
		r.fail(131008, "Parameter '%s' is mandatory", at(path, name))
	case !ok:
		r.fail(131009, "Param %s must be a string.", at(path, name))
	case length < least || length > most:
		r.fail(131009, "Param %s must be at most %d characters long.", at(path, name), most)
	}
	return text
}

// Object reads an object, which may be left out unless it is required.
func (r *Reader) Object(of object, path, name string, required bool) map[string]any {
	value, given := of[name]
	if r.err != nil || (!given || value == nil) && !required {
		return nil
	}
	found, ok := value.(object)
	switch {
	case !given || value == nil:
		r.fail(131008, "Parameter '%s' is mandatory", at(path, name))
	case !ok:
		r.fail(131009, "Param %s must be a JSON object.", at(path, name))
	}
	return found
}

// list reads an array of least to most objects.
func (r *Reader) list(of object, path, name string, least, most int) []object {
	value, given := of[name]
	if r.err != nil || (!given || value == nil) && least == 0 {
		return nil
	}
	items, ok := value.([]any)
	switch {
	case !given || value == nil:
		r.fail(131008, "Parameter '%s' is mandatory", at(path, name))
	case !ok:
		r.fail(131009, "Param %s must be an array.", at(path, name))
	case len(items) < least || len(items) > most:
		r.fail(131009, "Param %s must have %d to %d elements.", at(path, name), least, most)
	}
	return r.objects(items, at(path, name))
}

func (r *Reader) objects(items []any, path string) []object {
	all := make([]object, 0, len(items))
	for i, item := range items {
		one, ok := item.(object)
		if !ok {
			r.fail(131009, "Param %s[%d] must be a JSON object.", path, i)
			return nil
		}
		all = append(all, one)
	}
	return all
}

// number reads a number from least to most.
func (r *Reader) number(of object, path, name string, least, most float64) {
	value, given := of[name]
	if r.err != nil {
		return
	}
	number, ok := value.(float64)
	if text, isText := value.(string); isText {
		_, err := fmt.Sscanf(text, "%g", &number)
		ok = err == nil
	}
	switch {
	case !given || value == nil:
		r.fail(131008, "Parameter '%s' is mandatory", at(path, name))
	case !ok || number < least || number > most:
		r.fail(131009, "Param %s must be a number from %g to %g.", at(path, name), least, most)
	}
}
