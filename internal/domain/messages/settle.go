package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

type result = lanes.Result[*outgoing, outcome]

// settle writes what became of attempts: in the order of locks, first what an answer says beyond
// the message (its contact, its number), then the messages, then their events.
func (w *sender) settle(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch[*outgoing, outcome]) error {
	var sends []*result
	var receipts []*result
	for i := range batch.Results {
		one := &batch.Results[i]
		switch {
		case one.Task == nil: // gone
		case one.Task.receipt != nil:
			receipts = append(receipts, one)
		default:
			sends = append(sends, one)
		}
	}
	if err := w.effectsTx(ctx, tx, sends); err != nil {
		return err
	}
	states, err := lockStates(ctx, tx, postgres.Each(sends, func(r *result) ID { return r.Task.ID }))
	if err != nil {
		return err
	}
	if err := settleReceipts(ctx, tx, receipts); err != nil {
		return err
	}
	account, _ := w.known()
	b := newBook(w.s, account)
	var block time.Time
	for _, one := range sends {
		state, there := states[one.Task.ID]
		if !there {
			one.Answer = lanes.Answer[outcome]{} // erased meanwhile
			continue
		}
		message := one.Task.Message
		message.State = state
		if until := w.settleOne(b, one, &message); until.After(block) {
			block = until
		}
	}
	if block.After(w.s.clock.Now()) {
		batch.Block(block)
	}
	return b.writeTx(ctx, tx)
}

// settleOne decides what becomes of one message and its row. It returns until when the provider
// lets the whole number wait, or zero.
func (w *sender) settleOne(b *book, one *result, message *Message) (block time.Time) {
	attempt, now := one.Task.Attempt, w.s.clock.Now()
	switch one.Outcome {
	case lanes.Answered:
		if one.Task.refusal != nil {
			b.fail(message, one.Task.refusal.Code, one.Task.refusal.Message, nil)
			outcome := AttemptNotCalled
			if one.Task.unproved {
				outcome = AttemptUnknown
			}
			b.note(one, outcome, nil)
		}
	case lanes.Postponed:
		if message.Attempt == attempt { // nothing left this machine
			message.BegunAt = nil
			b.change(message)
		}
	case lanes.Unknown:
		w.unknown(b, one, message, now)
	case lanes.Returned:
		return w.returned(b, one, message, now)
	}
	return time.Time{}
}

// unknown keeps a message waiting for the callback of its attempt: the attempt stays open. A fault that
// the lane noted (a panic, a hung call) is dropped, because the row must wait and not be set aside.
func (w *sender) unknown(b *book, one *result, message *Message, now time.Time) {
	if message.Status != Queued && message.Status != Pending {
		one.Answer = lanes.Answer[outcome]{} // a callback was faster
		return
	}
	until := now
	if one.Task.BegunAt != nil {
		until = one.Task.BegunAt.Add(w.s.echoWait)
	}
	one.Answer = lanes.Answer[outcome]{RetryAt: until}
	b.note(one, AttemptUnknown, nil)
}

// returned settles an attempt that the provider answered.
func (w *sender) returned(b *book, one *result, message *Message, now time.Time) (block time.Time) {
	made, attempt := one.Value, one.Task.Attempt
	failed := made.failed
	switch {
	case failed == nil:
		message.accepted(made.accepted.MessageID, attempt, made.at)
		b.accepted(message, made.accepted.MessageID, made.at)
		b.unpair(one.Task)
		return time.Time{}
	case failed.Delivery == provider.Ambiguous:
		w.unknown(b, one, message, now)
		return time.Time{}
	case failed.Class != provider.Retryable && failed.Class != provider.RateLimited:
		b.note(one, AttemptRefused, failed)
		b.failBy(message, failed)
		return time.Time{}
	}
	b.note(one, AttemptFailed, failed)
	message.Failures++
	retry, again := provider.RetryAt(message.Failures, failed.RetryAfter, now)
	if !again || message.Status != Queued && message.Status != Pending {
		b.failBy(message, failed)
		one.Answer = lanes.Answer[outcome]{}
	} else {
		message.BegunAt = nil
		b.change(message)
		one.Answer = lanes.Answer[outcome]{RetryAt: retry}
	}
	return w.limited(b, one, failed, now)
}

// limited slows what the provider limits: the messages to one contact, or the whole number.
func (w *sender) limited(b *book, one *result, failed *provider.Error, now time.Time) (block time.Time) {
	if failed.Class == provider.RateLimited && failed.Limit == provider.LimitPair {
		one.KeyUntil = now.Add(pairWait(one.Task.Waits))
		b.pair(one.Task)
		return time.Time{}
	}
	if cool := coolDownOf(failed); cool > 0 && cool <= provider.MaxRetryWait {
		return now.Add(cool)
	}
	return time.Time{} // effectsTx has noted a longer one on the account
}

// coolDownOf is how long the provider lets the whole number wait, or zero. One longer than provider.MaxRetryWait is stored on the account.
func coolDownOf(failed *provider.Error) time.Duration {
	if failed.Class != provider.RateLimited || failed.Limit == provider.LimitPair || failed.Limit == provider.LimitOperation {
		return 0
	}
	return max(failed.RetryAfter, coolDown)
}

const (
	// coolDown is how long a number waits after a rate limit that names no time.
	coolDown = 5 * time.Second
	// mostPairWait bounds 4^n seconds. A longer one would keep messages from their own retries.
	mostPairWait = 64 * time.Second
)

// pairWait is 4^n seconds, n being the refusals in a row before this one.
func pairWait(waits int) time.Duration {
	wait := time.Second
	for range waits {
		if wait *= 4; wait >= mostPairWait {
			return mostPairWait
		}
	}
	return wait
}

// effectsTx writes what answers say beyond their message: that the contact stopped marketing, that
// the number is disconnected, must be registered again, or may send nothing for longer than a message
// is retried.
func (w *sender) effectsTx(ctx context.Context, tx *postgres.Tx, sends []*result) error {
	var choices []contacts.Choice
	var about accountFailure
	var cooldown time.Duration
	for _, one := range sends {
		failed := one.Value.failed
		if one.Outcome != lanes.Returned || failed == nil {
			continue
		}
		cooldown = max(cooldown, coolDownOf(failed))
		switch failed.Effect {
		case provider.EffectOptedOut:
			choices = append(choices, contacts.Choice{
				ContactID: one.Task.ContactID, Marketing: contacts.OptedOut, Source: contacts.FromProvider, At: one.Value.at,
			})
		case provider.EffectDisconnected, provider.EffectDegraded:
			about = about.or(failed, one.Value.at)
		case provider.EffectNone:
		}
	}
	if err := w.s.applyEffectsTx(ctx, tx, w.id, choices, about); err != nil || cooldown <= provider.MaxRetryWait {
		return err
	}
	if err := w.s.accounts.CoolDownTx(ctx, tx, w.id, w.s.clock.Now().Add(cooldown)); fault.Of(err) != fault.ResourceNotFound {
		return err
	}
	return nil
}

// accountFailure is a failure that says something about the number itself, and when the provider said it. It says nothing if
// failed is nil.
type accountFailure struct {
	failed *provider.Error
	at     time.Time
}

// or is the later of two failures; of two of the same time the second.
func (f accountFailure) or(failed *provider.Error, at time.Time) accountFailure {
	if f.failed != nil && at.Before(f.at) {
		return f
	}
	return accountFailure{failed: failed, at: at}
}

// applyEffectsTx is for answers and for failed callbacks.
func (s *Service) applyEffectsTx(
	ctx context.Context, tx *postgres.Tx, of accounts.ID, choices []contacts.Choice, about accountFailure,
) error {
	if len(choices) > 0 {
		if err := s.contacts.ChooseTx(ctx, tx, choices); err != nil {
			return err
		}
	}
	if about.failed == nil {
		return nil
	}
	if err := s.accounts.FailedTx(ctx, tx, of, about.failed, about.at); fault.Of(err) != fault.ResourceNotFound {
		return err
	}
	return nil
}
