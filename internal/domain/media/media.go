// Package media carries files between the provider and the bucket, in a lane for each number: it fetches the files
// of received messages, and uploads library files that messages are sent with. Package messages owns the messages
// and records their events.
package media

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// File is a file of a message that the provider has.
type File struct {
	// MessageID is the message; it is also the id of the lane's row.
	MessageID ids.Any
	Ref       provider.MediaRef
	// Key is the name of the file in the bucket, from NewKey.
	Key string
	// Event is the body of the event that waits for the file; nil if the owner makes it.
	Event []byte
}

// NewKey makes the name of a file in the bucket. It is also the secret in the file's public URL, which
// never expires: 256 random bits cannot be guessed.
func NewKey() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// State is what became of a file.
type State string

const (
	// Ready: it is in the bucket.
	Ready State = "ready"
	// Failed: it will not be fetched any more.
	Failed State = "failed"
	// Late: it is still being fetched, and the event must not wait any longer.
	Late State = "late"
)

// Outcome is what became of the file of a message.
type Outcome struct {
	MessageID ids.Any
	State     State
	Key       string
	MIMEType  string
	Size      int64
	Event     []byte
}

// Owner is the package that owns the messages.
type Owner struct {
	// Lock locks messages in the order of their ids. A batch locks all of its messages before it writes one. Before that
	// it writes what a failure says about the number; nil says nothing.
	Lock func(ctx context.Context, tx *postgres.Tx, of accounts.Account, messages []ids.Any, about *provider.Error) error
	// Files writes outcomes of downloads to the messages and records the events that waited. It returns the
	// messages that do not exist any more: their files are deleted.
	Files func(ctx context.Context, tx *postgres.Tx, of accounts.Account, outcomes []Outcome) (gone []ids.Any, err error)
	// Sends gets the messages whose library files were uploaded, or cannot be.
	Sends func(ctx context.Context, tx *postgres.Tx, of accounts.Account, released []Released) error
}

const (
	// waitsFor is how long an event waits for its file. ReleaseLate runs every 20 s and looks ahead
	// so far that none waits longer.
	waitsFor  = time.Minute
	lookAhead = 20 * time.Second
	// triesBeforeEvent is after how many failed tries the event waits no longer.
	triesBeforeEvent = 3
	// keepsTrying is how long a file is tried. The provider keeps it for 7 days.
	keepsTrying = 6 * 24 * time.Hour
	// maxSize is the provider's largest file, in bytes.
	maxSize = 100 << 20
)

// retryAfter is how long a download waits after so many failed tries.
func retryAfter(tries int) time.Duration {
	steps := []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute}
	if tries <= len(steps) {
		return steps[tries-1]
	}
	return 2 * time.Hour
}

// laneOf is the media lane of a number: a digest, because the number's own id is the lane of its sends.
func laneOf(account accounts.ID) ids.Any {
	sum := sha256.Sum256([]byte("media of " + account.String()))
	return ids.Derived([16]byte(sum[:16]))
}
