package ids

import (
	"bytes"

	"github.com/jackc/pgx/v5/pgtype"
)

// Any is the id of any noun, for plumbing that carries ids and knows no noun. The zero
// value is stored as null.
type Any struct{ bytes [16]byte }

// Any forgets the noun.
func (id Public[K]) Any() Any { return Any{bytes: id.ulid} }

// Any forgets the noun.
func (id Plain[K]) Any() Any { return Any(id) }

// Derived is an id that follows from something else, a digest for example.
func Derived(from [16]byte) Any { return Any{bytes: from} }

// From is the id of a noun again, for who knows that it is one.
func From[K Kind](id Any) Public[K] { return Public[K]{ulid: id.bytes} }

// IsZero tells an id that was never set.
func (id Any) IsZero() bool { return id.bytes == [16]byte{} }

// Compare orders ids as the database does.
func (id Any) Compare(other Any) int { return bytes.Compare(id.bytes[:], other.bytes[:]) }

func (id Any) String() string { return pgtype.UUID{Bytes: id.bytes, Valid: true}.String() }

// MarshalText prints the id as a UUID.
func (id Any) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText printed.
func (id *Any) UnmarshalText(text []byte) error {
	var parsed pgtype.UUID
	err := parsed.Scan(string(text))
	id.bytes = parsed.Bytes
	return err
}

// UUIDValue stores the id in a uuid column.
func (id Any) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: id.bytes, Valid: !id.IsZero()}, nil
}

// ScanUUID reads the id from a uuid column.
func (id *Any) ScanUUID(value pgtype.UUID) error {
	id.bytes = value.Bytes
	return nil
}
