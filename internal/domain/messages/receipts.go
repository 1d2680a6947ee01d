package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Receipt marks an inbound message and all before it as read.
type Receipt struct {
	// MessageID is the provider's id of the message.
	MessageID string
	Typing    bool
}

type receiptKind struct{}

func (receiptKind) Prefix() string { return "rct_" }

// receiptsWithin is how old a receipt may be that is still sent.
const receiptsWithin = 20 * time.Second

// MarkRead marks an inbound message of the number, and all before it in its conversation, as read
// here, and has the provider told.
func (s *Service) MarkRead(ctx context.Context, org orgs.ID, by accounts.Account, receipt Receipt) (Message, error) {
	if refusal := first(refusedByNumber(by, provider.TypeText, nil, s.clock.Now())); refusal != nil {
		return Message{}, refusal
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Message, error) {
		found, err := messagesOf(ctx, tx, []string{receipt.MessageID})
		if err != nil {
			return Message{}, err
		}
		message, err := messageByID(ctx, tx, by.ID, found[receipt.MessageID])
		if err != nil {
			return Message{}, postgres.NotFound(err, "message", "message_id")
		}
		if message.Direction != Inbound {
			return Message{}, fault.Invalid("message_id", "must be the id of a message that a contact sent")
		}
		if err := s.readUpToTx(ctx, tx, &message); err != nil {
			return Message{}, err
		}
		id := ids.New[receiptKind](s.clock.Now())
		if err := insertReceipt(ctx, tx, id.Any(), by.ID, receipt); err != nil {
			return Message{}, err
		}
		row := lanes.Row{ID: id.Any(), Key: message.ContactID.Any(), Priority: firstClass}
		return message, s.lanes.AddTx(ctx, tx, laneKind, by.ID.Any(), row)
	})
}

// readUpToTx marks a message and the inbound ones before it as read, and counts what is left.
func (s *Service) readUpToTx(ctx context.Context, tx *postgres.Tx, message *Message) error {
	now := s.clock.Now()
	unread, err := s.conversations.LockUnreadTx(ctx, tx, message.ConversationID)
	if err != nil {
		return err
	}
	if unread == 0 && message.Status != Delivered {
		return nil // all is read
	}
	// What is left is counted and not subtracted, because messages that expired are in the count still.
	left, err := countUnread(ctx, tx, message.ConversationID, message.ID, unread)
	if err != nil {
		return err
	}
	unread -= left
	if message.Status == Delivered {
		message.Status, message.ReadAt = Read, &now
		if message.Type != provider.TypeReaction {
			unread = max(unread, 1)
		}
	}
	if _, err := markRead(ctx, tx, message.ConversationID, message.ID, unread, nil, now); err != nil {
		return err
	}
	return s.conversations.UnreadTx(ctx, tx, message.ConversationID, left)
}

// beginReceipts finds the rows that are receipts and marks them as begun: an attempt whose result is
// unknown is not repeated. Rows that are neither messages nor receipts are gone.
func (w *sender) beginReceipts(ctx context.Context, tx *postgres.Tx, tasks []*task, messages map[ids.Any]*begun, now time.Time) error {
	var asked []ids.Any
	for _, task := range tasks {
		if messages[task.Row.ID] == nil {
			asked = append(asked, task.Row.ID)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	rows, err := beginReceipts(ctx, tx, w.id, asked)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		if messages[task.Row.ID] != nil {
			continue
		}
		row, is := rows[task.Row.ID]
		dropped := !is || row.Begun || now.Sub(ids.From[receiptKind](task.Row.ID).CreatedAt()) > receiptsWithin
		if !dropped {
			account, err := w.currentTx(ctx, tx, row.Version)
			if err != nil {
				return err
			}
			dropped = refusedByNumber(account, provider.TypeText, nil, now) != nil
		}
		task.Value = &outgoing{receipt: &provider.Receipt{MessageID: row.ProviderID, Typing: row.Typing}, number: w.called()}
		if dropped {
			task.Answer(lanes.Answer[outcome]{})
		}
	}
	return nil
}

// settleReceipts deletes receipts that were called or dropped. One that was not called after all
// waits on.
func settleReceipts(ctx context.Context, tx *postgres.Tx, all []*result) error {
	var done, again []ids.Any
	for _, one := range all {
		if one.Outcome == lanes.Postponed {
			again = append(again, one.Row.ID)
		} else {
			done = append(done, one.Row.ID)
			one.Answer = lanes.Answer[outcome]{}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return endReceipts(ctx, tx, done, again)
}
