// Package callbacks stores the bodies that the provider pushes and applies their items. Each
// number has a lane, and so has each business account, for bodies that name no number. The
// package does not know what an item means; consumers do. A consumer may get an item more than
// once, because the provider repeats callbacks and a lane repeats a batch after a crash.
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

// ID names a stored callback or an item that was set aside.
type ID = ids.Public[Kind]

// Kind is the kind of these ids.
type Kind struct{}

// Prefix begins every such id.
func (Kind) Prefix() string { return "cbk_" }

// Part is the part of a callback that concerns one number, or one business account, of an
// organization.
type Part struct {
	OrgID orgs.ID
	// NumberID is empty for a part that concerns the business account. Generation is that of the
	// directory's route by which the number was found.
	NumberID          string
	Generation        int64
	BusinessAccountID string
	// ReceivedAt is when the part came, if it was in quarantine since; zero otherwise. An organization does not get
	// what came before it connected the number.
	ReceivedAt time.Time
	// Body is what the adapter parses.
	Body []byte
}

// connectedBefore is greater than the id of each account that was connected when the part came; nil does not matter.
func (p Part) connectedBefore() *ids.Any {
	if p.ReceivedAt.IsZero() {
		return nil
	}
	return new(ids.Floor[Kind](p.ReceivedAt.Add(time.Millisecond)).Any())
}

// lane is the id of the lane in which the part waits: a digest, so that no lookup is needed.
func (p Part) lane() ids.Any {
	name := "number " + p.NumberID
	if p.NumberID == "" {
		name = "business account " + p.BusinessAccountID
	}
	sum := sha256.Sum256([]byte("callbacks of " + p.OrgID.String() + " " + name))
	return ids.Derived([16]byte(sum[:16]))
}

// Outcome says whether a part was stored.
type Outcome int

const (
	// Absent: the organization does not have the number in this cell.
	Absent Outcome = iota
	// Frozen: the organization is being moved.
	Frozen
	// Stored: the part is committed and will be applied.
	Stored
)

// Inbound is an item together with the callback that it came in.
type Inbound struct {
	provider.Notification

	Callback ID
	// Generation is that of the number's route; 0 for an item of a business account.
	Generation int64
}

// Consumer applies the items that it knows, in their order, and returns the others. Items come
// more than once, so applying an item again must change nothing.
type Consumer func(ctx context.Context, tx *postgres.Tx, items []Inbound) (left []Inbound, err error)

// OneByOne makes a consumer of a verb for one item.
func OneByOne(verb func(ctx context.Context, tx *postgres.Tx, item provider.Notification) (handled bool, err error)) Consumer {
	return func(ctx context.Context, tx *postgres.Tx, items []Inbound) (left []Inbound, err error) {
		for _, item := range items {
			handled, err := verb(ctx, tx, item.Notification)
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

// State says why an item was set aside.
type State string

// The states.
const (
	Unhandled State = "unhandled" // no consumer takes such items yet
	Dead      State = "dead"      // a dead letter: it failed in a transaction of its own
)

// Item is an item that was set aside.
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

// Filter narrows a list; an empty field narrows nothing. Limit 0 is the largest, 10,000.
type Filter struct {
	OrgID orgs.ID
	State State
	IDs   []ID
	Limit int
}
