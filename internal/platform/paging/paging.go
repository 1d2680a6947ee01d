// Package paging pages lists by keyset: a page starts after the position of the last row of the
// page before, so that rows inserted meanwhile neither repeat nor hide others. Clients get a
// position only sealed, as a cursor that is bound to its organization, list and filters.
package paging

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/sealed"
)

// The default and the largest number of rows of a page, for every list.
const (
	DefaultLimit = 25
	MaxLimit     = 100
)

// Slice is the part of a list that a page shows.
type Slice[P any] struct {
	// Limit is the largest number of rows.
	Limit int
	// After is the position after which the page starts; nil for the first page.
	After *P
}

// Page is one page of a list.
type Page[T, P any] struct {
	Items []T
	// Next is the position after which the next page starts; nil on the last page.
	Next *P
}

// Cut makes a page of rows that were read with a limit of one row more. The additional row only
// tells that there is a next page.
func Cut[T, P any](rows []T, limit int, position func(T) P) Page[T, P] {
	if len(rows) <= limit {
		return Page[T, P]{Items: rows}
	}
	rows = rows[:limit]
	next := position(rows[limit-1])
	return Page[T, P]{Items: rows, Next: &next}
}

// List is the list that a cursor belongs to. Filters is the canonical text of all filters.
type List struct {
	Org     ids.Org
	Name    string
	Filters string
}

func (l List) identity() []byte {
	digest := sha256.Sum256([]byte(l.Filters))
	return bytes.Join([][]byte{l.Org.Bytes(), []byte(l.Name), digest[:]}, []byte{0})
}

// Cursors seals positions into cursors and opens them.
type Cursors struct{ box *sealed.Box }

// NewCursors derives its keys from the ring. Cursors that were sealed with an older key still open.
func NewCursors(ring *sealed.Keyring) (*Cursors, error) {
	box, err := ring.Box("cursor")
	return &Cursors{box: box}, err
}

// Seal returns the cursor of a position.
func Seal[P any](c *Cursors, list List, position P) (string, error) {
	plain, err := json.Marshal(position)
	if err != nil {
		return "", err
	}
	ciphertext, err := c.box.Seal(plain, list.identity())
	return base64.RawURLEncoding.EncodeToString(ciphertext), err
}

// maxCursor is the largest number of characters that Open decodes; our cursors are far shorter.
const maxCursor = 2048

// Open returns the position of a cursor. A cursor that cannot be decoded, was changed, or belongs
// to another list is refused with the same fault.
func Open[P any](c *Cursors, list List, cursor string) (*P, error) {
	invalid := fault.New(fault.InvalidCursor,
		"The cursor is not one of this list with these filters. Pass `next_cursor` unchanged, or start again without a cursor.").At("cursor")
	if len(cursor) > maxCursor {
		return nil, invalid
	}
	ciphertext, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || base64.RawURLEncoding.EncodeToString(ciphertext) != cursor {
		return nil, invalid // the decoder ignores line breaks and unused bits; we do not
	}
	plain, err := c.box.Open(ciphertext, list.identity())
	if err != nil {
		return nil, invalid
	}
	position := new(P)
	if err := json.Unmarshal(plain, position); err != nil {
		return nil, invalid
	}
	return position, nil
}
