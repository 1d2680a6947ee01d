package simulator

import (
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/simulator/courier"
)

// event is something that subscribed apps are told.
type event struct {
	account  *account
	number   *number // whose override counts; nil for events of the account
	field    string
	value    any
	valueFor func(a *app) any // in place of value, when it depends on the app
	entry    string           // in place of the account's id
	at       time.Time        // zero leaves the entry's time out, as messages do
}

// tell posts an event to every app that subscribed to the account; now and then it gets
// lost, or goes out twice, as the settings say. The caller holds the lock.
func (s *Simulator) tell(e event) {
	told := false
	for _, id := range slices.Sorted(maps.Keys(e.account.subscribed)) {
		a := s.world.apps[id]
		if a == nil || !a.wants(e.field) {
			continue
		}
		target := s.target(e, a)
		if target.URL == "" {
			continue
		}
		told = true
		if s.chance(s.world.settings.Drop) {
			s.counts.lost.Add(1)
			continue
		}
		value := e.value
		if e.valueFor != nil {
			value = e.valueFor(a)
		}
		update := courier.Update{Entry: e.account.ID, Field: e.field, Value: encode(value)}
		if e.entry != "" {
			update.Entry = e.entry
		}
		if !e.at.IsZero() {
			update.Time = e.at.Unix()
		}
		s.courier.Post(target, update)
		if s.chance(s.world.settings.Duplicate) {
			later := s.Now().Add(time.Duration(s.random.IntN(1000)) * time.Millisecond)
			s.agenda.At(later, func() { s.courier.Post(target, update) })
		}
	}
	if !told {
		s.counts.withoutTarget.Add(1)
	}
}

// target is where an app wants an event: the number's address before the account's
// before its own.
func (s *Simulator) target(e event, a *app) courier.Target {
	target := courier.Target{URL: a.CallbackURL, Secret: func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return a.Secret
	}}
	if e.field != fieldMessages {
		return target
	}
	if o := e.account.subscribed[a.ID]; o.URL != "" {
		target.URL = o.URL
	}
	if e.number != nil {
		if o := e.number.override[a.ID]; o.URL != "" {
			target.URL = o.URL
		}
	}
	return target
}
