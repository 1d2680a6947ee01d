package state

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/parley-chat/parley/internal/simulator/dispatcher"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Notification is one change that subscribed apps receive in a callback.
type Notification struct {
	Account  *Account
	Number   *Number // whose override is used; nil for a change of the account
	Field    string
	Value    any
	valueFor func(a *App) any // used instead of Value when it depends on the app
	EntryID  string           // default: the account's id
	message  *ChatMessage     // the user's message that it carries; nil for other changes
}

// NotifyAccount queues callbacks about an account.
func (s *Simulation) NotifyAccount(owner *Account, field string, value object) {
	s.Notify(Notification{Account: owner, Field: field, Value: value})
}

// NotifyNumber adds the product and the metadata to a value and queues callbacks about a number.
func (s *Simulation) NotifyNumber(n *Number, field string, value object) {
	value[wire.FieldProduct], value[wire.FieldMetadata] = wire.Product, n.Metadata()
	s.Notify(Notification{Account: n.Account, Number: n, Field: field, Value: value})
}

// NotifyInbound queues callbacks about a user's message, whose ticks on the page follow them.
func (s *Simulation) NotifyInbound(n *Number, m *ChatMessage, value object) {
	value[wire.FieldProduct], value[wire.FieldMetadata] = wire.Product, n.Metadata()
	s.Notify(Notification{Account: n.Account, Number: n, Field: wire.FieldMessages, Value: value, message: m})
	s.updateTicks(m)
}

// VerifyCallbackURL refuses a callback URL that does not answer the challenge.
func (s *Simulation) VerifyCallbackURL(ctx context.Context, address, verifyToken string) error {
	if len(address) > 200 {
		return wire.Refusal(100, "A callback URL has up to 200 characters.")
	}
	challenge := strconv.FormatInt(s.Counters.Accepted.Load()+1158201444, 10)
	if err := dispatcher.Verify(ctx, s.client, address, verifyToken, challenge); err != nil {
		return wire.Refusal(100, "Callback verification failed: %s", err.Error()).With(2201)
	}
	return nil
}

// Notify queues a callback for every app that subscribed to the account. By the settings it
// may be lost or posted twice. The caller holds the lock.
func (s *Simulation) Notify(n Notification) {
	queued := false
	for _, id := range slices.Sorted(maps.Keys(n.Account.Subscribed)) {
		a := s.Data.Apps[id]
		if a == nil || !a.wants(n.Field) {
			continue
		}
		target := s.target(n, a)
		if target.URL == "" {
			continue
		}
		queued = true
		update := s.update(n, a)
		n.message.await(target.URL)
		if s.chance(s.Data.Settings.Drop) {
			s.Counters.lost.Add(1)
			s.applyCallback(s.dispatcher.Unposted(target, update, "dropped by the setting drop"))
			continue
		}
		delay := time.Duration(s.Data.Settings.CallbackDelayMS) * time.Millisecond
		s.postAfter(delay, target, update)
		if s.chance(s.Data.Settings.Duplicate) {
			update.Message = "" // the ticks follow the first of the two
			s.postAfter(delay+time.Duration(1+s.random.IntN(1000))*time.Millisecond, target, update)
		}
	}
	if !queued {
		s.Counters.withoutTarget.Add(1)
	}
}

// postAfter queues an update after a delay, or at once without one. The caller holds the lock.
func (s *Simulation) postAfter(delay time.Duration, target dispatcher.Target, update dispatcher.Update) {
	if delay <= 0 {
		s.post(target, update)
		return
	}
	scheduled := s.Scheduler.At(s.Now().Add(delay), func() {
		s.Lock()
		defer s.Unlock()
		s.post(target, update)
	})
	if !scheduled {
		s.Counters.unscheduled.Add(1)
		s.applyCallback(s.dispatcher.Unposted(target, update, "dropped because too much is scheduled"))
	}
}

// post queues an update. The caller holds the lock.
func (s *Simulation) post(target dispatcher.Target, update dispatcher.Update) {
	if oldest, full := s.dispatcher.Post(target, update); full {
		s.applyCallback(s.dispatcher.Unposted(target, oldest, "dropped because the queue is full"))
	}
}

// update returns a notification as the callback to an app carries it.
func (s *Simulation) update(n Notification, a *App) dispatcher.Update {
	value := n.Value
	if n.valueFor != nil {
		value = n.valueFor(a)
	}
	update := dispatcher.Update{Entry: n.Account.ID, Field: n.Field, Value: wire.Encode(value)}
	if n.EntryID != "" {
		update.Entry = n.EntryID
	}
	if n.Field != wire.FieldMessages { // callbacks about messages have no time
		update.Time = s.Now().Unix()
	}
	if n.message != nil {
		update.Message = n.message.ID
	}
	return update
}

// target returns where an app's callback goes: the URL of the number, else that of the
// account, else its own.
func (s *Simulation) target(n Notification, a *App) dispatcher.Target {
	target := dispatcher.Target{URL: a.CallbackURL, Secret: func() string {
		s.Lock()
		defer s.Unlock()
		return a.Secret
	}}
	if n.Field != wire.FieldMessages {
		return target
	}
	if o := n.Account.Subscribed[a.ID]; o.URL != "" {
		target.URL = o.URL
	}
	if n.Number != nil {
		if o := n.Number.Override[a.ID]; o.URL != "" {
			target.URL = o.URL
		}
	}
	return target
}
