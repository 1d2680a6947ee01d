package messages

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// parkRevocations keeps revocations whose message is not known. The provider repeats a callback that was not answered
// with 200, so that a message may come after its revocation.
func (b *book) parkRevocations(all []*amendment) error {
	for _, one := range all {
		body, err := one.Envelope()
		if err != nil {
			return err
		}
		b.parked = append(b.parked, parked{
			ProviderID: one.revoke.OriginalID, ID: ids.New[parkedKind](b.now), Body: body, status: revokePrefix + one.revoke.ID,
		})
	}
	return nil
}

// releaseRevocationsTx revokes the messages of a number that have come after their revocation. A revocation that has
// waited for parkedFor is dropped. It returns how many wait no more.
func (s *Service) releaseRevocationsTx(ctx context.Context, tx *postgres.Tx, of accounts.ID) (released int, err error) {
	account, err := s.accounts.GetTx(ctx, tx, of)
	if err != nil {
		return 0, err
	}
	book := newBook(s, account)
	rows, err := overdueOf(ctx, tx, of, true, book.now)
	if err != nil {
		return 0, err
	}
	known, err := messagesOf(ctx, tx, postgres.Each(rows, func(row parked) string { return row.ProviderID }))
	if err != nil {
		return 0, err
	}
	b := &batch{s: s, account: account}
	looked := make([]ended, len(rows))
	for i, row := range rows {
		message, found := known[row.ProviderID]
		looked[i] = ended{row: row, over: found || row.over(book.now), due: book.now.Add(firstLook)}
		if found {
			b.amended = append(b.amended, s.parseRevocations(ctx, row, message)...)
		}
	}
	if book.drafts, err = b.amendTx(ctx, tx); err != nil {
		return 0, err
	}
	taken, err := takeOverdue(ctx, tx, looked)
	if err != nil {
		return 0, err
	}
	return len(taken), book.writeTx(ctx, tx)
}

func (s *Service) parseRevocations(ctx context.Context, row parked, of ID) (all []*amendment) {
	items, err := s.provider.Parse(row.Body)
	if err != nil { // it was parsed before it was parked
		s.logger.ErrorContext(ctx, "messages.parked_revocation_unreadable", "id", row.ID, "error", err)
	}
	for _, item := range items {
		if revoke, is := item.Item.(provider.Revoke); is {
			all = append(all, &amendment{Inbound: callbacks.Inbound{Notification: item}, revoke: &revoke, message: of})
		}
	}
	return all
}
