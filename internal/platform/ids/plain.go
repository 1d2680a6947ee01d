package ids

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Plain is an id without a prefix, a UUIDv7 in lower case: of organizations, teams, users, keys
// and accounts. K only makes the types of different nouns different.
type Plain[K any] struct{ bytes [16]byte }

// Org is the id of an organization, the tenant. It is declared here because every layer needs it.
type Org = Plain[orgKind]

type orgKind struct{}

// NewOrg mints the id of an organization.
func NewOrg(at time.Time) Org { return NewPlain[orgKind](at) }

// NewPlain mints an id whose creation time is at.
func NewPlain[K any](at time.Time) Plain[K] {
	id := Plain[K]{bytes: mint(at)}
	id.bytes[6] = id.bytes[6]&0x0f | 0x70 // version 7
	id.bytes[8] = id.bytes[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

// ParsePlain reads the one printed form: 36 characters, lower case.
func ParsePlain[K any](text string) (Plain[K], error) {
	var parsed pgtype.UUID
	if len(text) != 36 || parsed.Scan(text) != nil || parsed.String() != text {
		return Plain[K]{}, errMalformed
	}
	return Plain[K]{bytes: parsed.Bytes}, nil
}

// IsZero reports whether the id was never set.
func (id Plain[K]) IsZero() bool { return id.bytes == [16]byte{} }

// CreatedAt returns the time at which the id was made.
func (id Plain[K]) CreatedAt() time.Time {
	var ms int64
	for _, b := range id.bytes[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
}

func (id Plain[K]) String() string { return pgtype.UUID{Bytes: id.bytes, Valid: true}.String() }

// Bytes returns the 16 bytes, for keys and associated data.
func (id Plain[K]) Bytes() []byte { return id.bytes[:] }

// MarshalText prints the id.
func (id Plain[K]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText accepts what ParsePlain does.
func (id *Plain[K]) UnmarshalText(text []byte) error {
	parsed, err := ParsePlain[K](string(text))
	*id = parsed
	return err
}

// UUIDValue stores the id in a uuid column.
func (id Plain[K]) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: id.bytes, Valid: true}, nil
}

// ScanUUID reads the id from a uuid column.
func (id *Plain[K]) ScanUUID(value pgtype.UUID) error {
	id.bytes = value.Bytes
	return nil
}
