// Package callbacks keeps what the provider pushes and has it applied: each number, and
// each business account for what concerns no number, is a lane of its own. It knows no
// meaning of an item; consumers do. Any of them may see an item again: the provider
// repeats itself, and so does a process that died.
package callbacks

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// ID names a stored callback, and an item that was set aside.
type ID = ids.Public[Kind]

// Kind is that of their ids.
type Kind struct{}

// Prefix begins them.
func (Kind) Prefix() string { return "cbk_" }

// Part is what a callback says to one number of an organization, or to its business account.
type Part struct {
	OrgID orgs.ID
	// NumberID is empty for what concerns the business account; Generation is that of the
	// number's route, by which it was found.
	NumberID          string
	Generation        int64
	BusinessAccountID string
	// Body is what the adapter parses.
	Body []byte
}

// lane is the lane in which the part waits. It is known without asking anybody.
func (p Part) lane() ids.Any {
	name := "number " + p.NumberID
	if p.NumberID == "" {
		name = "business account " + p.BusinessAccountID
	}
	sum := sha256.Sum256([]byte("callbacks of " + p.OrgID.String() + " " + name))
	return ids.Derived([16]byte(sum[:16]))
}

// Outcome is what became of a part.
type Outcome int

const (
	// Absent: the organization does not have the number here, or not any more.
	Absent Outcome = iota
	// Frozen: the organization is being moved.
	Frozen
	// Stored parts will be applied.
	Stored
)

// Consumer applies the items that it knows, in their order, and returns the others. What
// it does must come to the same when it is done twice.
type Consumer func(ctx context.Context, tx *postgres.Tx, items []provider.Notification) (left []provider.Notification, err error)

// OneByOne makes a consumer of a verb for one item.
func OneByOne(verb func(ctx context.Context, tx *postgres.Tx, item provider.Notification) (handled bool, err error)) Consumer {
	return func(ctx context.Context, tx *postgres.Tx, items []provider.Notification) (left []provider.Notification, err error) {
		for _, item := range items {
			handled, err := verb(ctx, tx, item)
			if err != nil {
				return nil, err
			}
			if !handled {
				left = append(left, item)
			}
		}
		return left, nil
	}
}

// State is why an item was set aside.
type State string

// The states.
const (
	Unhandled State = "unhandled" // nobody takes such items yet
	Dead      State = "dead"      // it failed, alone and for no fault of the database
)

// Item is one that was set aside.
type Item struct {
	OrgID             orgs.ID
	ID                ID
	State             State
	Reason            string
	Field             string
	PhoneNumberID     *string
	Generation        *int64
	BusinessAccountID *string
	Body              []byte
}

// SetAsideAt is when.
func (i Item) SetAsideAt() time.Time { return i.ID.CreatedAt() }

// Filter narrows a list; empty fields do not.
type Filter struct {
	OrgID orgs.ID
	State State
	IDs   []ID
	Limit int
}
