package messages

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// referenceOf is what comes back on every callback of an attempt.
func referenceOf(id ID, attempt int) string { return id.String() + ":" + strconv.Itoa(attempt) }

// mostAttempts is far more than a message ever has. The column of the number takes no more than 32,767.
const mostAttempts = 30_000

// parseReference reads what referenceOf printed; false for references that are not ours.
func parseReference(text string) (id ID, attempt int, ours bool) {
	message, number, cut := strings.Cut(text, ":")
	id, err := ids.Parse[kind](message)
	if !cut || err != nil {
		return id, 0, false
	}
	attempt, err = strconv.Atoi(number)
	return id, attempt, err == nil && attempt > 0 && attempt <= mostAttempts
}

// notified is a status with the message that it is about. of is that message, once it is locked; nil
// if it is not known.
type notified struct {
	callbacks.Inbound

	status  provider.Status
	message ID
	attempt int
	of      *Message
}

func stopsMarketing(failed *provider.Error) bool { return failed.Effect == provider.EffectOptedOut }

// applyAll applies the statuses of known messages, then gives the others to unknown. A status may
// have become known by another one of the same batch.
func (b *book) applyAll(all []*notified, unknown func(*notified) error) error {
	var others []*notified
	for _, one := range all {
		if one.of == nil {
			others = append(others, one)
		} else if err := b.apply(one.of, one); err != nil {
			return err
		}
	}
	for _, one := range others {
		var err error
		if message := b.find(one.status.MessageID); message != nil {
			err = b.apply(message, one)
		} else {
			err = unknown(one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lockFoundTx finds the message of each status and locks it: by our reference, else by the
// provider's id. A reference to a message of another number counts as none.
func lockFoundTx(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []*notified) error {
	found, err := findTx(ctx, tx, all)
	if err != nil {
		return err
	}
	if err := lockTx(ctx, tx, of, found); err != nil {
		return err
	}
	var misled []*notified
	for _, one := range found {
		if one.of == nil && one.attempt > 0 {
			one.message, one.attempt = ID{}, 0
			misled = append(misled, one)
		}
	}
	if found, err = byProviderIDTx(ctx, tx, misled); err != nil {
		return err
	}
	return lockTx(ctx, tx, of, found)
}

func lockTx(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []*notified) error {
	messages, err := lockMessages(ctx, tx, of, postgres.Each(all, func(n *notified) ID { return n.message }))
	for _, one := range all {
		one.of = messages[one.message]
	}
	return err
}

// findTx returns the statuses whose message is named by our reference, or known by the provider's id.
// It locks nothing.
func findTx(ctx context.Context, tx *postgres.Tx, all []*notified) (found []*notified, err error) {
	var asked []*notified
	for _, one := range all {
		if id, attempt, ours := parseReference(one.status.Reference); ours {
			one.message, one.attempt = id, attempt
			found = append(found, one)
		} else {
			asked = append(asked, one)
		}
	}
	more, err := byProviderIDTx(ctx, tx, asked)
	return append(found, more...), err
}

// byProviderIDTx returns the statuses whose message is known by the provider's id.
func byProviderIDTx(ctx context.Context, tx *postgres.Tx, all []*notified) (found []*notified, err error) {
	byID, err := messagesOf(ctx, tx, postgres.Each(all, func(n *notified) string { return n.status.MessageID }))
	for _, one := range all {
		if id, known := byID[one.status.MessageID]; known {
			one.message = id
			found = append(found, one)
		}
	}
	return found, err
}

// apply merges a status into a message and records its event. Messages of contacts have no statuses.
func (b *book) apply(message *Message, one *notified) error {
	if message.Direction == Inbound {
		return nil
	}
	first, accepted := !message.calledBack(), message.SentAt
	c := callback{Attempt: one.attempt, ProviderID: one.status.MessageID, Status: one.status.Status, At: b.timeOf(message, one)}
	if len(one.status.Errors) > 0 {
		c.Error = one.status.Errors[0]
	}
	before, begun := message.ProviderID, message.Attempt
	announce := message.apply(c)
	if message.Attempt > begun {
		b.forgotten = append(b.forgotten, message)
	}
	if first && accepted != nil && message.calledBack() && message.Source != FromApp {
		b.counted = append(b.counted, minute{Minute: *accepted, CalledBack: 1})
	}
	b.change(message)
	if before == nil || *before != one.status.MessageID {
		b.ids = append(b.ids, providerID{ProviderID: one.status.MessageID, MessageID: message.ID})
	}
	if message.Source != FromContact && message.Source != FromApp { // those were announced when they arrived
		b.proved(message)
	}
	if !announce {
		return nil
	}
	draft, err := statusEvent(b.account, message, one)
	if err == nil {
		b.drafts = append(b.drafts, draft)
	}
	return err
}

// timeOf is when a status came about: by the provider, whose clock has whole seconds, but not before a
// message of ours was accepted. A status without a usable time came about now.
func (b *book) timeOf(message *Message, one *notified) time.Time {
	at := one.status.At
	if at.IsZero() {
		at = b.now
	}
	if created := message.ID.CreatedAt(); message.Source != FromApp && at.Before(created) {
		at = created
	}
	return at
}

// aboutNumber is the latest failure of the batch that says something about the number itself.
func (b *batch) aboutNumber() (about accountFailure) {
	for _, one := range b.statuses {
		for _, failed := range one.status.Errors {
			if failed.Effect == provider.EffectDisconnected || failed.Effect == provider.EffectDegraded {
				about = about.or(failed, b.timeOrNow(one.status.At))
			}
		}
	}
	return about
}
