package messages

import (
	"context"
	"errors"
	"slices"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// adoptTx applies the statuses that were parked for the provider's ids that this book has learned.
func (b *book) adoptTx(ctx context.Context, tx *postgres.Tx) error {
	learned := b.learned()
	if len(learned) == 0 {
		return nil
	}
	taken, err := takeParked(ctx, tx, postgres.Each(learned, func(id providerID) string { return id.ProviderID }))
	if err != nil {
		return err
	}
	for _, one := range b.s.parse(ctx, taken) {
		if one.unreadable {
			continue
		}
		message := b.find(one.status.MessageID)
		if message == nil { // of an edit
			continue
		}
		if err := b.apply(message, &one.notified); err != nil {
			return err
		}
	}
	return nil
}

// waiting is a parked status that was read again.
type waiting struct {
	notified

	row parked
	// unreadable says that the body cannot be parsed: the row is deleted.
	unreadable bool
}

func (s *Service) parse(ctx context.Context, rows []parked) []*waiting {
	var all []*waiting
	for _, row := range rows {
		items, err := s.provider.Parse(row.Body)
		if err != nil { // it was parsed before it was parked
			s.logger.ErrorContext(ctx, "messages.parked_status_unreadable", "id", row.ID, "error", err)
			all = append(all, &waiting{row: row, unreadable: true})
			continue
		}
		for _, item := range items {
			if status, is := item.Item.(provider.Status); is {
				one := notified{Inbound: callbacks.Inbound{Notification: item}, status: status}
				all = append(all, &waiting{notified: one, row: row})
			}
		}
	}
	return all
}

// ReleaseParked looks again for the messages of parked statuses: once soon, because a status and the
// answer with its id may have been committed at the same time, and once in the end. What is unknown
// then is announced without a message. Parked revocations are released too. It returns how many
// rows wait no more. Every process that does background work calls it every 20 s.
func (s *Service) ReleaseParked(ctx context.Context) (released int, err error) {
	numbers, err := overdueNumbers(ctx, s.work, s.clock.Now())
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, one := range numbers {
		count, err := postgres.InTx(ctx, s.work, one.OrgID, func(tx *postgres.Tx) (int, error) {
			return s.releaseTx(ctx, tx, one.AccountID)
		})
		if one.Revoked {
			revoked, alsoFailed := postgres.InTx(ctx, s.work, one.OrgID, func(tx *postgres.Tx) (int, error) {
				return s.releaseRevocationsTx(ctx, tx, one.AccountID)
			})
			if count += revoked; err == nil {
				err = alsoFailed
			}
		}
		if code := fault.Of(err); code == fault.ServiceUnavailable || code == fault.ResourceNotFound {
			continue // the organization is being moved, or the number is purged
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		released += count
	}
	return released, errors.Join(failed...)
}

// releaseTx locks messages before it takes the parked rows, in the order of locks. A row that another
// transaction took meanwhile is not applied.
func (s *Service) releaseTx(ctx context.Context, tx *postgres.Tx, of accounts.ID) (released int, err error) {
	account, err := s.accounts.GetTx(ctx, tx, of)
	if err != nil {
		return 0, err
	}
	b := newBook(s, account)
	rows, err := overdueOf(ctx, tx, of, false, b.now)
	if err != nil {
		return 0, err
	}
	all := s.parse(ctx, rows)
	readable := slices.DeleteFunc(slices.Clone(all), func(w *waiting) bool { return w.unreadable })
	if err := lockFoundTx(ctx, tx, of, postgres.Each(readable, func(w *waiting) *notified { return &w.notified })); err != nil {
		return 0, err
	}
	taken, err := takeOverdue(ctx, tx, postgres.Each(all, func(w *waiting) ended {
		over := w.unreadable || w.of != nil || w.row.over(b.now)
		return ended{row: w.row, over: over, due: w.row.ID.CreatedAt().Add(parkedFor)}
	}))
	if err != nil {
		return 0, err
	}
	var ours []*notified
	for _, one := range readable {
		if taken[one.row.ID] {
			ours = append(ours, &one.notified)
		}
	}
	unknown := 0
	err = b.applyAll(ours, func(one *notified) error {
		unknown++
		return b.announceAlone(one)
	})
	if err != nil {
		return 0, err
	}
	if unknown > 0 {
		s.logger.InfoContext(ctx, "messages.statuses_without_message", "org", tx.Org(), "account", of, "count", unknown)
	}
	return len(ours), b.writeTx(ctx, tx)
}

// announceAlone records message.status for a status without a message.
func (b *book) announceAlone(one *notified) error {
	item := one.Notification
	if _, _, ours := parseReference(one.status.Reference); ours { // a message that was erased has left such statuses
		raw, err := withReference(item.Raw, nil)
		if err != nil {
			return err
		}
		item.Raw = raw
	}
	body, err := item.Envelope()
	b.drafts = append(b.drafts, events.Draft{
		Type: events.MessageStatus, Key: one.status.MessageID, PhoneNumberID: one.NumberID, Body: body,
	})
	return err
}
