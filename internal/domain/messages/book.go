package messages

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// book collects what a transaction changes of the messages of one number, and writes it by one
// statement. The states of the messages were locked before.
type book struct {
	s       *Service
	account accounts.Account
	now     time.Time
	changed []*Message
	// sent are the messages for which message.sent is due.
	sent []*Message
	ids  []providerID
	// arrivedIDs are the provider's ids of messages and edits that were just stored, arrived those messages.
	arrivedIDs []providerID
	arrived    []*Message
	// preferences are the ids of marketing preferences that were just applied.
	preferences []string
	attempts    []attempt
	// answered are the times at which the provider took messages by its answer.
	answered map[ID]*time.Time
	pairs    []pair
	drafts   []events.Draft
	// forgotten are messages whose last attempt this database has not begun: it was restored from a backup.
	forgotten []*Message
	// files are to be fetched; the events of their messages wait for them.
	files []media.File
	// parked are statuses and revocations that wait for their message from now on.
	parked []parked
	// counted are attempts for the cell's counts. They are added after the commit, because a
	// settlement that failed is made again.
	counted []minute
}

// providerID is the provider's id of a message.
type providerID struct {
	ProviderID string
	MessageID  ID
}

// attempt is one that failed, was not called, or whose result was not known when it ended.
type attempt struct {
	MessageID    ID
	Attempt      int
	BegunAt      time.Time
	EndedAt      time.Time
	Outcome      AttemptOutcome
	ErrorCode    *fault.Code
	ProviderCode *int
}

// pair is a contact to whom too many messages went. Waits 0 forgets it.
type pair struct {
	ContactID contacts.ID
	Waits     int
}

func newBook(s *Service, account accounts.Account) *book {
	return &book{s: s, account: account, now: s.clock.Now(), answered: map[ID]*time.Time{}}
}

// change has the state of a message written.
func (b *book) change(message *Message) {
	if !slices.Contains(b.changed, message) {
		b.changed = append(b.changed, message)
	}
}

// arrive notes a message that was just stored.
func (b *book) arrive(message *Message) {
	b.arrivedIDs = append(b.arrivedIDs, providerID{ProviderID: *message.ProviderID, MessageID: message.ID})
	b.arrived = append(b.arrived, message)
}

// accepted notes that the provider took a message under an id.
func (b *book) accepted(message *Message, id string, at time.Time) {
	b.ids = append(b.ids, providerID{ProviderID: id, MessageID: message.ID})
	b.answered[message.ID] = &at
	one := minute{Minute: at, Accepted: 1}
	if message.calledBack() { // the callback was faster than the answer
		one.CalledBack = 1
	}
	b.counted = append(b.counted, one)
	b.proved(message)
}

// proved records message.sent, once.
func (b *book) proved(message *Message) {
	b.change(message)
	if message.announce(announcedMessageSent) {
		b.sent = append(b.sent, message)
	}
}

// fail ends a message by our own word, and records the synthesized event.
func (b *book) fail(message *Message, code fault.Code, words string, number *int) {
	if message.Status != Queued && message.Status != Pending {
		return // a callback was faster
	}
	message.fail(code, words, number, b.now)
	b.change(message)
	if message.announce(announcedSynthesized) {
		b.drafts = append(b.drafts, synthesizedEvent(b.account, message))
	}
}

// failBy ends a message by an answer of the provider that is no callback.
func (b *book) failBy(message *Message, failed *provider.Error) {
	code, words, number := failureOf(failed)
	b.fail(message, code, words, number)
}

// note keeps an attempt for the timeline. It ended when the provider answered; now, if it did not.
func (b *book) note(of *result, outcome AttemptOutcome, failed *provider.Error) {
	begun, ended := of.Task.BegunAt, b.now
	if begun == nil {
		return // noted before
	}
	if !of.Value.at.IsZero() {
		ended = of.Value.at
	}
	one := attempt{MessageID: of.Task.ID, Attempt: of.Task.Attempt, BegunAt: *begun, EndedAt: ended, Outcome: outcome}
	if failed != nil {
		one.ErrorCode, one.ProviderCode = &failed.Code, failed.ProviderCode
	}
	b.attempts = append(b.attempts, one)
}

// park keeps a status whose message is not known. One that is not in KnownStatuses has no event and is dropped.
func (b *book) park(one *notified) error {
	if !slices.Contains(provider.KnownStatuses(), one.status.Status) {
		return nil
	}
	body, err := one.Envelope()
	b.parked = append(b.parked, parked{
		ProviderID: one.status.MessageID, ID: ids.New[parkedKind](b.now), Body: body, status: one.status.Status,
	})
	return err
}

// learned are the provider's ids of outbound messages that became known by this book: only those can
// have statuses.
func (b *book) learned() []providerID {
	learned := slices.Clone(b.ids)
	for _, message := range b.arrived {
		if message.Direction == Outbound {
			learned = append(learned, providerID{ProviderID: *message.ProviderID, MessageID: message.ID})
		}
	}
	return learned
}

// find returns the message whose provider's id was learned by this book, or nil.
func (b *book) find(id string) *Message {
	for _, one := range b.arrived {
		if *one.ProviderID == id {
			return one
		}
	}
	for _, one := range b.ids {
		if one.ProviderID == id {
			return b.changed[slices.IndexFunc(b.changed, func(m *Message) bool { return m.ID == one.MessageID })]
		}
	}
	return nil
}

// pair counts a refusal of a message because too many went to its contact.
func (b *book) pair(one *outgoing) {
	b.pairs = append(b.pairs, pair{ContactID: one.ContactID, Waits: one.Waits + 1})
}

// unpair forgets such refusals once a message went through.
func (b *book) unpair(one *outgoing) {
	if one.Waits > 0 {
		b.pairs = append(b.pairs, pair{ContactID: one.ContactID})
	}
}

// writeTx writes everything. Statuses that came before the provider's id of their message are
// applied now.
func (b *book) writeTx(ctx context.Context, tx *postgres.Tx) error {
	if err := b.adoptTx(ctx, tx); err != nil {
		return err
	}
	// nameArrivals must be the first to store the ids of what arrived.
	b.ids = slices.DeleteFunc(b.ids, func(id providerID) bool {
		return slices.ContainsFunc(b.arrivedIDs, func(other providerID) bool { return other.ProviderID == id.ProviderID })
	})
	if err := writeBook(ctx, tx, b); err != nil {
		return err
	}
	if err := recallAttempts(ctx, tx, b.forgotten); err != nil {
		return err
	}
	if err := nameArrivals(ctx, tx, b.arrivedIDs); err != nil {
		return err
	}
	if err := rememberPreferences(ctx, tx, b.preferences, b.now); err != nil {
		return err
	}
	if err := b.s.media.FetchTx(ctx, tx, b.account, b.files); err != nil {
		return err
	}
	tx.AfterCommit(func() {
		for _, one := range b.counted {
			b.s.minutes.add(one.Minute, one.Accepted, one.CalledBack)
		}
	})
	drafts, err := b.sentEventsTx(ctx, tx)
	if err != nil {
		return err
	}
	return b.s.events.RecordTx(ctx, tx, append(drafts, b.drafts...)...)
}
