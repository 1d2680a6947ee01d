package parley

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"mime/multipart"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Ptr returns a pointer to a value, for optional fields.
func Ptr[T any](value T) *T { return &value }

// Nullable is a field that can be absent (its zero value), null, or a value.
type Nullable[T any] struct {
	value *T
	given bool
}

// Value returns a field with a value.
func Value[T any](value T) Nullable[T] { return Nullable[T]{&value, true} }

// Null returns a field that is null. In a PATCH it clears the field.
func Null[T any]() Nullable[T] { return Nullable[T]{nil, true} }

// Get returns the value; it is nil when the field is null or absent.
func (n Nullable[T]) Get() *T { return n.value }

// IsZero tells whether the field is absent; encoding/json then leaves it out.
func (n Nullable[T]) IsZero() bool { return !n.given }

// MarshalJSON writes the value or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.value) }

// UnmarshalJSON reads a value or null.
func (n *Nullable[T]) UnmarshalJSON(text []byte) error {
	n.given = true
	return json.Unmarshal(text, &n.value)
}

// RawBody is a send body in JSON, for fields that this version does not know.
type RawBody json.RawMessage

// MarshalJSON returns the JSON as it is.
func (b RawBody) MarshalJSON() ([]byte, error) { return b, nil }

// Upload is a file for the library, with the other fields of the form.
type Upload struct {
	Filename string
	Content  []byte
	Fields   map[string]string
}

// encode returns the bytes of a body and their content type.
func encode(body any) ([]byte, string, error) {
	switch body := body.(type) {
	case nil:
		return nil, "", nil
	case Upload:
		return body.encode()
	default:
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(body)
		return bytes.TrimRight(text.Bytes(), "\n"), "application/json", err
	}
}

func (u Upload) encode() ([]byte, string, error) {
	var text bytes.Buffer
	form := multipart.NewWriter(&text)
	for _, name := range slices.Sorted(maps.Keys(u.Fields)) {
		if err := form.WriteField(name, u.Fields[name]); err != nil {
			return nil, "", err
		}
	}
	file, err := form.CreateFormFile("file", u.Filename)
	if err == nil {
		_, err = file.Write(u.Content)
	}
	if err == nil {
		err = form.Close()
	}
	return text.Bytes(), form.FormDataContentType(), err
}

// orNothing turns a nil pointer into no body.
func orNothing[T any](body *T) any {
	if body == nil {
		return nil
	}
	return body
}

// newKey returns 32 random hexadecimal digits.
func newKey() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// set adds a parameter to a query, unless it is empty.
func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func number(value int) string {
	if value == 0 {
		return ""
	}
	return strconv.Itoa(value)
}

func truth(value *bool) string {
	if value == nil {
		return ""
	}
	return strconv.FormatBool(*value)
}

func moment(value time.Time) string {
	if value.IsZero() {
		return ""
	}
	return value.UTC().Format(time.RFC3339Nano)
}
