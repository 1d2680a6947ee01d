package graph

import (
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// readEdge is the name by which scripts match read receipts. The network has no edge of that
// name: read receipts are posted to the edge of sends.
const readEdge = "read"

// markRead marks a user's message, and all before it, as read by the business.
func (s *Server) markRead(c *call) (any, error) {
	id := c.Form.Text("message_id")
	digits, direction, ok := wire.ReadMessageID(id)
	if c.Form.Text("status") != "read" || !ok || direction != wire.FromUser {
		return nil, wire.Refusal(131009, "Param status must be read, and message_id a message that was received.")
	}
	typing, isTyping := c.Form["typing_indicator"].(object)
	if isTyping && typing["type"] != "text" {
		return nil, wire.Refusal(131009, "Param typing_indicator['type'] must be one of {text}.")
	}
	s.Lock()
	forced, err := s.acceptReceipt(c, digits, state.Receipt{MessageID: id, Number: c.number, Typing: isTyping, At: c.Now})
	s.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.delay(c, forced); err != nil {
		return nil, err
	}
	return &scriptedAnswer{outcome: forced, body: wire.Success()}, nil
}

// acceptReceipt stores a read receipt and shows it on the page, unless a script refuses it. The
// caller holds the lock, and applies the outcome after it unlocked.
func (s *Server) acceptReceipt(c *call, digits string, r state.Receipt) (state.Outcome, error) {
	if target := s.Data.Messages[r.MessageID]; target != nil && target.PhoneNumberID != r.Number.ID {
		return state.Outcome{}, wire.Refusal(131009, "The message was received by another phone number.")
	}
	forced, _ := s.Data.MatchScript(state.Operation{To: digits, PhoneNumberID: r.Number.ID, Edge: readEdge})
	if forced.Prevents() {
		return forced, nil
	}
	s.Data.Receipts.Add(r)
	s.MarkRead(r.Number, digits, r.MessageID)
	if r.Typing {
		s.Feed.Publish("typing", object{"phone_number_id": r.Number.ID, "phone": digits, "until": c.Now.Add(25 * time.Second).UnixMilli()})
	}
	return forced, nil
}
