// Package paging walks lists by keyset: a page starts after the position of the last
// row seen, so rows inserted meanwhile neither repeat nor hide others. A position leaves
// the product only sealed, as a cursor bound to its organization, list and filters.
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

// The limits of every list.
const (
	DefaultLimit = 25
	MaxLimit     = 100
)

// Slice asks for at most Limit rows after a position; no position is the first page.
type Slice[P any] struct {
	Limit int
	After *P
}

// Page is what a list answers: its rows and, when there are more, where they go on.
type Page[T, P any] struct {
	Items []T
	Next  *P
}

// Cut makes a page of rows that were read with one row more than the limit.
func Cut[T, P any](rows []T, limit int, position func(T) P) Page[T, P] {
	if len(rows) <= limit {
		return Page[T, P]{Items: rows}
	}
	rows = rows[:limit]
	next := position(rows[limit-1])
	return Page[T, P]{Items: rows, Next: &next}
}

// List is the walk that a cursor belongs to. Filters is the canonical text of everything
// that decides which rows are on it.
type List struct {
	Org     ids.Org
	Name    string
	Filters string
}

func (l List) identity() []byte {
	digest := sha256.Sum256([]byte(l.Filters))
	return bytes.Join([][]byte{l.Org.Bytes(), []byte(l.Name), digest[:]}, []byte{0})
}

// Cursors seals and opens positions.
type Cursors struct{ box *sealed.Box }

// NewCursors takes the keys from the ring; cursors made under an older key still open.
func NewCursors(ring *sealed.Keyring) (*Cursors, error) {
	box, err := ring.Box("cursor")
	return &Cursors{box: box}, err
}

// Seal prints a position as a cursor.
func Seal[P any](c *Cursors, list List, position P) (string, error) {
	plain, err := json.Marshal(position)
	if err != nil {
		return "", err
	}
	ciphertext, err := c.box.Seal(plain, list.identity())
	return base64.RawURLEncoding.EncodeToString(ciphertext), err
}

// maxCursor bounds what is decoded; our own cursors are far shorter.
const maxCursor = 2048

// Open reads a cursor. One that cannot be decoded, was changed, or belongs to another
// list is the same fault.
func Open[P any](c *Cursors, list List, cursor string) (*P, error) {
	invalid := fault.New(fault.InvalidCursor,
		"The cursor is not one of this list with these filters. Pass `next_cursor` unchanged, or start again without a cursor.").At("cursor")
	if len(cursor) > maxCursor {
		return nil, invalid
	}
	ciphertext, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || base64.RawURLEncoding.EncodeToString(ciphertext) != cursor {
		return nil, invalid // the decoder forgives line breaks and stray bits; we do not
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
