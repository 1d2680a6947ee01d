package content

import (
	"fmt"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Reader reads values out of JSON and keeps the first error. After an error it returns zero
// values, so that the caller can check Err once at the end.
type Reader struct{ err error }

// Err returns the first error.
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

// value returns a field. found is false when it is absent or null, or after an error.
func (r *Reader) value(of object, path, name string, required bool) (value any, found bool) {
	if value = of[name]; value == nil && required {
		r.fail(131008, "Parameter '%s' is mandatory", at(path, name))
	}
	return value, value != nil && r.err == nil
}

// Text reads a string of least to most characters. With least 0 it is optional.
func (r *Reader) Text(of object, path, name string, least, most int) string {
	value, found := r.value(of, path, name, least > 0)
	if !found {
		return ""
	}
	text, ok := value.(string)
	switch length := utf8.RuneCountInString(text); {
	case !ok:
		r.fail(131009, "Param %s must be a string.", at(path, name))
	case length == 0 && least > 0:
		r.fail(131008, "Parameter '%s' is mandatory", at(path, name))
	case length < least || length > most:
		r.fail(131009, "Param %s must be at most %d characters long.", at(path, name), most)
	}
	return text
}

// Object reads an object.
func (r *Reader) Object(of object, path, name string, required bool) map[string]any {
	value, found := r.value(of, path, name, required)
	if !found {
		return nil
	}
	read, ok := value.(object)
	if !ok {
		r.fail(131009, "Param %s must be a JSON object.", at(path, name))
	}
	return read
}

// list reads an array of least to most objects. With least 0 it is optional.
func (r *Reader) list(of object, path, name string, least, most int) []object {
	value, found := r.value(of, path, name, least > 0)
	if !found {
		return nil
	}
	items, ok := value.([]any)
	switch {
	case !ok:
		r.fail(131009, "Param %s must be an array.", at(path, name))
	case len(items) < least || len(items) > most:
		r.fail(131009, "Param %s must have %d to %d elements.", at(path, name), least, most)
	}
	objects := make([]object, 0, len(items))
	for i, item := range items {
		one, ok := item.(object)
		if !ok {
			r.fail(131009, "Param %s[%d] must be a JSON object.", at(path, name), i)
			return nil
		}
		objects = append(objects, one)
	}
	return objects
}

// number reads a number from least to most, which may be written as a string.
func (r *Reader) number(of object, path, name string, least, most float64) {
	value, found := r.value(of, path, name, true)
	if !found {
		return
	}
	number, ok := value.(float64)
	if text, isText := value.(string); isText {
		_, err := fmt.Sscanf(text, "%g", &number)
		ok = err == nil
	}
	if !ok || number < least || number > most {
		r.fail(131009, "Param %s must be a number from %g to %g.", at(path, name), least, most)
	}
}
