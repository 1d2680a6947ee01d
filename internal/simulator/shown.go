package simulator

import (
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// bubble is a message as the phone page shows it.
type bubble struct {
	ID            string         `json:"id"`
	PhoneNumberID string         `json:"phone_number_id"`
	Phone         string         `json:"phone"`
	Outbound      bool           `json:"outbound"`
	Echo          bool           `json:"echo,omitempty"` // typed in the business's phone app
	Type          string         `json:"type"`
	Content       any            `json:"content"`
	ContextID     string         `json:"context_id,omitempty"`
	At            clock.Stamp    `json:"at"` // always as long: the page sorts by it
	Status        string         `json:"status,omitempty"`
	Error         *bubbleProblem `json:"error,omitempty"`
	Reactions     []string       `json:"reactions,omitempty"` // the user's, then the business's
	Revoked       bool           `json:"revoked,omitempty"`
	Edited        bool           `json:"edited,omitempty"`
}

type bubbleProblem struct {
	Code    int    `json:"code"`
	Title   string `json:"title"`
	Details string `json:"details"`
}

// rank orders statuses, because they may be told in any order.
var rank = map[string]int{"": 0, "sent": 1, "delivered": 2, "read": 3, "played": 4, "failed": 5}

// show remembers a bubble, forgets the oldest, and tells the page.
func (s *Simulator) show(b *bubble) {
	if b.Type == kindReaction {
		s.react(b)
	}
	w := s.world
	if gone, evicted := w.shown.add(b); evicted {
		delete(w.bubbles, gone.ID)
		which := pair{gone.PhoneNumberID, gone.Phone} // the oldest of all is the oldest of its thread
		if w.threads[which] = w.threads[which][1:]; len(w.threads[which]) == 0 {
			delete(w.threads, which)
		}
	}
	which := pair{b.PhoneNumberID, b.Phone}
	w.bubbles[b.ID], w.threads[which] = b, append(w.threads[which], b)
	s.live.publish("message", b)
}

// react puts a reaction's emoji on the bubble it is about.
func (s *Simulator) react(b *bubble) {
	content, _ := b.Content.(object)
	id, _ := content["message_id"].(string)
	emoji, _ := content["emoji"].(string)
	target := s.world.bubbles[id]
	if target == nil {
		return
	}
	if target.Reactions == nil {
		target.Reactions = make([]string, 2)
	}
	side := 0
	if b.Outbound {
		side = 1
	}
	target.Reactions[side] = emoji
	s.live.publish("message", target)
}

// advance moves the ticks of a bubble, never backwards.
func (s *Simulator) advance(id, status string, failure *wire.Error) {
	b := s.world.bubbles[id]
	if b == nil || rank[status] <= rank[b.Status] {
		return
	}
	if b.Status = status; failure != nil && status == "failed" {
		b.Error = &bubbleProblem{Code: failure.Code, Title: failure.Title, Details: failure.Details}
	}
	s.live.publish("status", b)
}

// readByBusiness marks what a user wrote, up to a message, as read.
func (s *Simulator) readByBusiness(n *number, digits, upTo string) {
	thread, reached := s.world.threads[pair{n.ID, digits}], false
	for _, b := range slices.Backward(thread) {
		if reached = reached || b.ID == upTo; !reached || b.Outbound {
			continue
		}
		if b.Status == "read" {
			return // and so is everything before it
		}
		b.Status = "read"
		s.live.publish("status", b)
	}
}

// thread lists what was said between a number and a user, oldest first.
func (w *world) thread(which pair, most int) []*bubble {
	said := w.threads[which]
	return said[max(0, len(said)-most):]
}

// sentEntry is a line of the sent log.
type sentEntry struct {
	id, to, kind, opaque string
	number               *number
	at                   time.Time
}
