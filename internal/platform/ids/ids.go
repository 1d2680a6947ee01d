// Package ids makes and parses the ids of the product. Each noun has an id type of its own, so
// that the compiler refuses a contact's id in place of a label's. All ids are 16 bytes in the
// database, and begin with the creation time.
package ids

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/oklog/ulid/v2"
)

// Kind is a noun with the prefix of its public ids.
type Kind interface {
	Prefix() string
}

// Public is a prefixed ULID: `lbl_01J…`.
type Public[K Kind] struct{ ulid ulid.ULID }

var errMalformed = errors.New("malformed id")

// New mints an id whose creation time is at.
func New[K Kind](at time.Time) Public[K] { return Public[K]{ulid: mint(at)} }

// Parse reads the one printed form of an id: its prefix and 26 upper-case characters.
func Parse[K Kind](text string) (Public[K], error) {
	var kind K
	prefix := kind.Prefix()
	if len(text) != len(prefix)+ulid.EncodedSize || text[:len(prefix)] != prefix {
		return Public[K]{}, errMalformed
	}
	parsed, err := ulid.ParseStrict(text[len(prefix):])
	if err != nil || parsed.String() != text[len(prefix):] {
		return Public[K]{}, errMalformed
	}
	return Public[K]{ulid: parsed}, nil
}

// MustParse is Parse for tests and constants.
func MustParse[K Kind](text string) Public[K] {
	id, err := Parse[K](text)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
	return id
}

// Floor returns the smallest id of a time: the bound of a partition or of a time filter.
func Floor[K Kind](at time.Time) Public[K] {
	var id Public[K]
	if at.UnixMilli() > 0 {
		_ = id.ulid.SetTime(ulid.Timestamp(at)) // fails only past the year 10889
	}
	return id
}

// Ceiling returns an id that is greater than every other: the start of a descending list.
func Ceiling[K Kind]() Public[K] {
	var id Public[K]
	for i := range id.ulid {
		id.ulid[i] = 0xff
	}
	return id
}

// CreatedAt returns the time at which the id was made.
func (id Public[K]) CreatedAt() time.Time { return id.ulid.Timestamp().UTC() }

// IsZero reports whether the id was never set.
func (id Public[K]) IsZero() bool { return id.ulid.IsZero() }

func (id Public[K]) String() string {
	var kind K
	return kind.Prefix() + id.ulid.String()
}

// MarshalText prints the id with its prefix.
func (id Public[K]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText accepts what Parse does.
func (id *Public[K]) UnmarshalText(text []byte) error {
	parsed, err := Parse[K](string(text))
	*id = parsed
	return err
}

// UUIDValue stores the id in a uuid column.
func (id Public[K]) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: id.ulid, Valid: true}, nil
}

// ScanUUID reads the id from a uuid column.
func (id *Public[K]) ScanUUID(value pgtype.UUID) error {
	id.ulid = value.Bytes
	return nil
}
