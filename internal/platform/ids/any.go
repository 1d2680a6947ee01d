package ids

import (
	"bytes"

	"github.com/jackc/pgx/v5/pgtype"
)

// Any is the id of any noun, for code that passes ids on and does not know the noun. The zero
// value is stored as null.
type Any struct{ bytes [16]byte }

// Any returns the id without its noun.
func (id Public[K]) Any() Any { return Any{bytes: id.ulid} }

// Any returns the id without its noun.
func (id Plain[K]) Any() Any { return Any(id) }

// Derived returns an id with the given bytes, for example those of a digest.
func Derived(from [16]byte) Any { return Any{bytes: from} }

// From returns the id as one of the noun K. The caller must know that it is one.
func From[K Kind](id Any) Public[K] { return Public[K]{ulid: id.bytes} }

// IsZero reports whether the id was never set.
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

// PlainFrom returns the id as one of the noun K. The caller must know that it is one.
func PlainFrom[K any](id Any) Plain[K] { return Plain[K](id) }
