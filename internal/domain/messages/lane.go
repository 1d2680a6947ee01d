package messages

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	laneKind = "sends"
	// workers is how many numbers a process sends for at once, slowWorkers how many more whose provider
	// answers slowly. A number has leastAtOnce to mostAtOnce calls under way.
	workers, slowWorkers    = 64, 32
	leastAtOnce, mostAtOnce = 16, 128
	// callTimeout bounds a call to the provider.
	callTimeout = 10 * time.Second
	rowTimeout  = callTimeout + 2*time.Second
)

// kind describes the lanes of sends: one for each number. The messages to one contact are sent one
// at a time: urgent ones first, else in order, but a message that waits for its retry lets later ones pass.
func (s *Service) kind() lanes.Kind[*outgoing, outcome] {
	return lanes.Kind[*outgoing, outcome]{
		Name: laneKind, Open: s.open, SetAside: s.setAside, Retries: lanes.Pass,
		Least: leastAtOnce, Most: mostAtOnce, Timeout: rowTimeout, Workers: workers, SlowWorkers: slowWorkers,
	}
}

// OpenLaneTx makes the lane of a number that is being connected.
func (s *Service) OpenLaneTx(ctx context.Context, tx *postgres.Tx, account accounts.Account) error {
	return s.lanes.OpenTx(ctx, tx, laneKind, account.ID.Any())
}

// sender sends the messages of one number while its lane is drained.
type sender struct {
	s   *Service
	org orgs.ID
	id  accounts.ID
	// account and number are as last read. version changes with the account's row. mu guards them,
	// because rows are begun while others are settled.
	mu      sync.Mutex
	account accounts.Account
	number  provider.Number
	version string
}

// open prepares the work on one lane. The rows of a number that is gone leave the lane without a
// call: its messages are being purged.
func (s *Service) open(ctx context.Context, lane lanes.Lane) (lanes.Work[*outgoing, outcome], error) {
	w := &sender{s: s, org: lane.Org, id: accounts.FromLane(lane.ID)}
	account, err := s.accounts.Get(ctx, w.org, w.id)
	if fault.Of(err) == fault.ResourceNotFound {
		return lanes.Work[*outgoing, outcome]{}, nil
	}
	if err != nil {
		return lanes.Work[*outgoing, outcome]{}, err
	}
	if err := w.learn(account, ""); err != nil {
		return lanes.Work[*outgoing, outcome]{}, err
	}
	return lanes.Work[*outgoing, outcome]{Begin: w.begin, Call: w.call, Settle: w.settle, PerSecond: paceOf(account)}, nil
}

// paceOf is how many messages a second the provider takes from a number.
func paceOf(account accounts.Account) float64 {
	switch {
	case account.Coexistence:
		return 20
	case account.Throughput != nil && *account.Throughput == string(provider.ThroughputHigh):
		return 1000
	default:
		return 80
	}
}

// learn keeps the account as it was read, and what calls for its number need. Its row had that
// version, or a later one.
func (w *sender) learn(account accounts.Account, version string) error {
	number, err := w.s.accounts.Number(w.org, account)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account, w.number, w.version = account, number, version
	return nil
}

func (w *sender) known() (accounts.Account, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.account, w.version
}

// called is the number as the provider is called for it.
func (w *sender) called() provider.Number {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number
}

// outgoing is a row of the lane: a message with the attempt that was just begun, or a receipt.
type outgoing struct {
	Message

	// Waits is how often in a row the provider said that too many messages went to this contact.
	Waits int

	// receipt is set if the row is a receipt.
	receipt *provider.Receipt
	// refusal is why the message may not be sent any more.
	refusal *fault.Error
	// unproved says that the last attempt may have been called, and never had a known result.
	unproved bool
	number   provider.Number
	// library are the library files of the content. sendable is the content with the provider's ids in their place,
	// lacksFile says that the provider does not have one of them any more.
	library   []content.Reference
	sendable  json.RawMessage
	lacksFile bool
}

// outcome is the provider's answer to a call.
type outcome struct {
	accepted provider.Accepted
	failed   *provider.Error
	at       time.Time
}

// call makes one attempt.
func (w *sender) call(ctx context.Context, _ lanes.Row, one *outgoing) lanes.Answer[outcome] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var made outcome
	var err error
	if one.receipt != nil {
		err = w.s.provider.MarkRead(ctx, one.number, *one.receipt)
	} else {
		made.accepted, err = w.s.provider.Send(ctx, one.number, one.outbound())
	}
	made.at = w.s.clock.Now()
	if err == nil {
		return lanes.Answer[outcome]{Value: made}
	}
	failed, known := provider.As(err)
	if !known {
		failed = &provider.Error{Class: provider.Retryable, Delivery: provider.Ambiguous, Code: fault.UpstreamError, Title: "The call failed."}
	}
	made.failed = failed
	return lanes.Answer[outcome]{Value: made, Overloaded: failed.Class == provider.RateLimited && failed.Limit != provider.LimitPair}
}

// outbound is the message as the provider gets it.
func (o *outgoing) outbound() provider.Outbound {
	out := provider.Outbound{Reference: referenceOf(o.ID, o.Attempt), Type: o.Type, Content: o.Content}
	if o.sendable != nil {
		out.Content = o.sendable
	}
	switch {
	case o.ToNumber != nil:
		out.To = *o.ToNumber
	case o.Category != nil && *o.Category == authentication && o.ContactNumber != nil:
		out.To = *o.ContactNumber // codes cannot be sent to a BSUID
	default:
		out.Recipient = *o.ToBSUID
	}
	if o.ReplyTo != nil {
		out.ReplyTo = *o.ReplyTo
	}
	return out
}

// setAside fails messages that the lane has set aside, because handling them failed several times.
func (s *Service) setAside(ctx context.Context, tx *postgres.Tx, lane lanes.Lane, rows []lanes.Aside[*outgoing]) error {
	account, err := s.accounts.GetTx(ctx, tx, accounts.FromLane(lane.ID))
	if fault.Of(err) == fault.ResourceNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	aside := postgres.Each(rows, func(row lanes.Aside[*outgoing]) ids.Any { return row.Row.ID })
	all := postgres.Each(aside, ids.From[kind])
	messages, err := lockMessages(ctx, tx, account.ID, all)
	if err != nil {
		return err
	}
	if err := endReceipts(ctx, tx, aside, nil); err != nil {
		return err
	}
	b := newBook(s, account)
	for _, message := range messages {
		b.fail(message, fault.InternalError, "The message could not be handled.", nil)
	}
	tx.AfterCommit(func() {
		s.logger.ErrorContext(ctx, "message.set_aside", "org", tx.Org(), "account", account.ID, "rows", len(rows), "reason", rows[0].Reason)
	})
	return b.writeTx(ctx, tx)
}
