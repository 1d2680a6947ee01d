package state

import (
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// ChatMessage is a message as the phone page shows it.
type ChatMessage struct {
	ID            string        `json:"id"`
	PhoneNumberID string        `json:"phone_number_id"`
	Phone         string        `json:"phone"`
	Outbound      bool          `json:"outbound"`
	Echo          bool          `json:"echo,omitempty"` // typed in the business's phone app
	Type          string        `json:"type"`
	Content       any           `json:"content"`
	ContextID     string        `json:"context_id,omitempty"`
	At            clock.Stamp   `json:"at"` // of fixed length: the page sorts by it
	Status        string        `json:"status,omitempty"`
	Error         *messageError `json:"error,omitempty"`
	Reactions     []string      `json:"reactions,omitempty"` // the user's, then the business's
	Revoked       bool          `json:"revoked,omitempty"`
	Edited        bool          `json:"edited,omitempty"`
	Callback      *lastCallback `json:"callback,omitempty"` // of a user's message

	callbacks []appCallback // of a user's message, one for each app
}

type messageError struct {
	Code    int    `json:"code"`
	Title   string `json:"title"`
	Details string `json:"details"`
}

// delivered is the status of a message that arrived.
const delivered = "delivered"

// rank orders statuses, because they may be reported in any order.
var rank = map[string]int{"": 0, "sent": 1, delivered: 2, "read": 3, "played": 4, "failed": 5}

// SentEntry is an accepted send in the log of GET /sim/sent.
type SentEntry struct {
	ID, To, Kind, Opaque string
	Number               *Number
	AcceptedAt           time.Time
	CallbacksDropped     bool // no callback about it is ever posted
}

// Receipt is a read receipt of the business in the log of GET /sim/receipts.
type Receipt struct {
	MessageID string
	Number    *Number
	Typing    bool // it also showed the typing bubble
	At        time.Time
}

// ApplyEdit changes a message that was edited or revoked.
func (s *Simulation) ApplyEdit(kind string, content any) {
	of, _ := content.(object)
	id, _ := of["original_message_id"].(string)
	m := s.Data.Messages[id]
	if m == nil {
		return
	}
	switch kind {
	case "revoke":
		m.Revoked = true
	case "edit":
		edited, _ := of["message"].(object)
		newKind, _ := edited["type"].(string)
		if newContent := edited[newKind]; newContent != nil {
			m.Type, m.Content, m.Edited = newKind, newContent, true
		}
	default:
		return
	}
	s.Feed.Publish("message", m)
}

// AddMessage stores a message, deletes the oldest one beyond the bound, and updates the page.
func (s *Simulation) AddMessage(m *ChatMessage) {
	if m.Type == wire.KindReaction {
		s.addReaction(m)
	}
	d := s.Data
	if oldest, evicted := d.Recent.Add(m); evicted {
		delete(d.Messages, oldest.ID)
		pair := Pair{oldest.PhoneNumberID, oldest.Phone} // the oldest of all is the first of its thread
		if d.Threads[pair] = d.Threads[pair][1:]; len(d.Threads[pair]) == 0 {
			delete(d.Threads, pair)
		}
	}
	pair := Pair{m.PhoneNumberID, m.Phone}
	d.Messages[m.ID], d.Threads[pair] = m, append(d.Threads[pair], m)
	s.Feed.Publish("message", m)
}

// addReaction stores the emoji of a reaction with the message that it refers to.
func (s *Simulation) addReaction(m *ChatMessage) {
	content, _ := m.Content.(object)
	id, _ := content["message_id"].(string)
	emoji, _ := content["emoji"].(string)
	target := s.Data.Messages[id]
	if target == nil {
		return
	}
	if target.Reactions == nil {
		target.Reactions = make([]string, 2)
	}
	side := 0
	if m.Outbound {
		side = 1
	}
	target.Reactions[side] = emoji
	s.Feed.Publish("message", target)
}

// advanceStatus sets the status of a message; it never goes back.
func (s *Simulation) advanceStatus(id, status string, failure *wire.Error) {
	m := s.Data.Messages[id]
	if m == nil || rank[status] <= rank[m.Status] {
		return
	}
	if m.Status = status; failure != nil && status == "failed" {
		m.Error = &messageError{Code: failure.Code, Title: failure.Title, Details: failure.Details}
	}
	s.Feed.Publish("status", m)
}

// MarkRead marks the user's messages up to one of them as read.
func (s *Simulation) MarkRead(n *Number, digits, upTo string) {
	thread, reached := s.Data.Threads[Pair{n.ID, digits}], false
	for _, m := range slices.Backward(thread) {
		if reached = reached || m.ID == upTo; !reached || m.Outbound {
			continue
		}
		if m.Status == "read" {
			return // all earlier messages were marked with this one
		}
		m.Status = "read"
		s.Feed.Publish("status", m)
	}
}

// LatestMessages returns the newest messages between a number and a user, oldest first.
func (d *Data) LatestMessages(pair Pair, most int) []*ChatMessage {
	thread := d.Threads[pair]
	return thread[max(0, len(thread)-most):]
}
