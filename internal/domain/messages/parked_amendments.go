package messages

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// waitsOn tells that an amendment whose message is unknown still has time to wait for it. The provider repeats a
// callback that was not answered, so that the message may come after its edit.
func (b *batch) waitsOn(one *amendment) bool {
	return one.waited == nil || !one.waited.over(b.s.clock.Now())
}

// parkAmendments keeps edits and revocations whose message is not known.
func (b *book) parkAmendments(all []*amendment) error {
	for _, one := range all {
		body, err := one.Envelope()
		if err != nil {
			return err
		}
		status := amendPrefix + "revoke"
		if one.edit != nil {
			status = amendPrefix + "edit " + one.edit.ID
		}
		b.parked = append(b.parked, parked{ProviderID: one.original(), ID: ids.New[parkedKind](b.now), Body: body, status: status})
	}
	return nil
}

// releaseAmendments applies the overdue edits and revocations of a number whose message has come, and ends the wait
// of those that have waited long enough: the edit becomes a message of its own, the revocation is dropped. It returns
// how many wait no more. It applies first and deletes the rows in a second transaction, because parked rows are locked
// before events; applying an amendment a second time changes nothing.
func (s *Service) releaseAmendments(ctx context.Context, of number) (released int, err error) {
	looked, err := postgres.InTx(ctx, s.work, of.OrgID, func(tx *postgres.Tx) ([]ended, error) {
		account, err := s.accounts.GetTx(ctx, tx, of.AccountID)
		if err != nil {
			return nil, err
		}
		now := s.clock.Now()
		rows, err := overdueOf(ctx, tx, of.AccountID, true, now)
		if err != nil {
			return nil, err
		}
		b := &batch{s: s, account: account, amended: s.parseAmendments(ctx, rows)}
		if err := b.peopleTx(ctx, tx); err != nil {
			return nil, err
		}
		waiting := map[ids.Public[parkedKind]]bool{}
		for _, one := range b.early {
			waiting[one.waited.ID] = true
		}
		b.early = nil // their rows stay
		return postgres.Each(rows, func(row parked) ended {
			return ended{row: row, over: !waiting[row.ID], due: now.Add(firstLook)}
		}), b.messagesTx(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	taken, err := postgres.InTx(ctx, s.work, of.OrgID, func(tx *postgres.Tx) (map[ids.Public[parkedKind]]bool, error) {
		return takeOverdue(ctx, tx, looked)
	})
	return len(taken), err
}

func (s *Service) parseAmendments(ctx context.Context, rows []parked) (all []*amendment) {
	for _, row := range rows {
		items, err := s.provider.Parse(row.Body)
		if err != nil { // it was parsed before it was parked
			s.logger.ErrorContext(ctx, "messages.parked_amendment_unreadable", "id", row.ID, "error", err)
		}
		for _, item := range items {
			one := &amendment{Inbound: callbacks.Inbound{Notification: item}, waited: &row}
			switch it := item.Item.(type) {
			case provider.Edit:
				one.edit = &it
			case provider.Revoke:
				one.revoke = &it
			default:
				continue
			}
			all = append(all, one)
		}
	}
	return all
}
