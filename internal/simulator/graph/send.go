package graph

import (
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// sendMarketing accepts templates only.
func (s *Server) sendMarketing(c *call) (any, error) {
	if c.Form.Text("type") != wire.KindTemplate {
		return nil, wire.Refusal(131055, "Only template messages are supported by this endpoint.")
	}
	return s.sendMessage(c)
}

// sendMessage accepts or refuses a send. A body with a status marks messages as read.
func (s *Server) sendMessage(c *call) (any, error) {
	if c.Form.Text(wire.FieldProduct) != wire.Product {
		return nil, wire.Refusal(100, "The parameter messaging_product is required.")
	}
	if c.Form["status"] != nil {
		return s.markRead(c)
	}
	m, err := readMessage(c.Form)
	if err != nil {
		return nil, err
	}
	s.Lock()
	forced, answer, err := s.accept(c, &m)
	s.Unlock()
	if err != nil {
		return nil, err
	}
	if forced == (state.Outcome{}) {
		return answer, nil
	}
	if err := s.delay(c, forced); err != nil {
		return nil, err
	}
	return &scriptedAnswer{outcome: forced, body: answer}, nil
}

// accept checks a send, and starts its delivery when it is accepted. The caller holds the
// lock, and applies the outcome after it unlocked.
func (s *Server) accept(c *call, m *message) (state.Outcome, any, error) {
	d, n := s.Data, c.number
	if err := checkSender(n); err != nil {
		return state.Outcome{}, nil, err
	}
	user, err := s.recipient(n, m)
	if err != nil {
		return state.Outcome{}, nil, err
	}
	forced, found := state.Outcome{}, false
	if len(d.Scripts) > 0 {
		name := ""
		if m.kind == wire.KindTemplate {
			name = templateName(m.content)
		}
		forced, found = d.MatchScript(state.Operation{To: user.Phone, PhoneNumberID: n.ID, Template: name})
	}
	if !found {
		forced = state.ReservedOutcome(user.Phone)
	}
	if forced.Prevents() {
		return forced, nil, nil
	}
	failure, err := s.checkSend(c, m, user)
	if err != nil {
		return state.Outcome{}, nil, err
	}
	if forced.AsyncCode != 0 {
		failure = wire.Refusal(forced.AsyncCode, "%s", forced.ErrorText())
	}
	delivery := &state.Delivery{
		Number: n, User: user, ID: wire.MessageID(user.Phone, wire.ToUser), Kind: m.kind, Category: "service", Opaque: m.opaque,
		ByUserID: m.to == "", AcceptedAt: c.Now, Failure: failure, Outcome: forced, WindowOpen: d.Windows.IsOpen(n.Pair(user.Phone), c.Now),
	}
	if m.template != nil {
		delivery.Category = strings.ToLower(m.template.Category)
	}
	content, _ := m.content.(object)
	delivery.Voice = m.kind == "audio" && content["voice"] == true
	s.AddMessage(&state.ChatMessage{
		ID: delivery.ID, PhoneNumberID: n.ID, Phone: user.Phone, Outbound: true, Type: m.kind, Content: chatContent(m),
		At: clock.Stamp(c.Now), ContextID: m.contextID,
	})
	_, link := source(m)
	s.AcceptSend(delivery, link)
	return forced, newSendAnswer(m, delivery), nil
}

// checkSender refuses a number that cannot send.
func checkSender(n *state.Number) error {
	switch {
	case n.Account.Disabled:
		return wire.Refusal(131031, "The WhatsApp Business Account of this phone number is disabled.")
	case !n.Registered():
		return wire.Refusal(133010, "Account not registered. Register the phone number before you send from it.")
	case n.Status == "RESTRICTED":
		return wire.Refusal(368, "The account is restricted from messaging.")
	}
	return nil
}

// recipient finds the user that a message is for. A phone number takes precedence over a user id.
func (s *Server) recipient(n *state.Number, m *message) (*state.User, error) {
	if m.to == "" {
		user := s.Data.Users.ByUserID(m.recipient, n.Account)
		if user == nil {
			return nil, wire.Refusal(131009, "The recipient is not a user ID of this business portfolio.")
		}
		return user, nil
	}
	digits, ok := wire.UserDigits(m.to)
	if !ok {
		return nil, wire.Refusal(131009, "Param to must be a phone number.")
	}
	if digits == n.Digits {
		return nil, wire.Refusal(131021, "The recipient is the sender.")
	}
	return s.Data.Users.ByPhone(digits), nil
}

// checkSend refuses what the network refuses in its answer. For an accepted message it returns
// why it will fail, nil when it will not.
func (s *Server) checkSend(c *call, m *message, user *state.User) (failure *wire.Error, err error) {
	d, n := s.Data, c.number
	if m.identity != "" && user.IdentityHash != "" && m.identity != user.IdentityHash {
		return nil, wire.Refusal(137000, "The recipient's identity key hash does not match.")
	}
	if m.kind == wire.KindTemplate {
		if m.template, err = s.findTemplate(n.Account, m); err != nil {
			return nil, err
		}
	}
	if err := s.checkMedia(n, m, c.Now); err != nil {
		return nil, err
	}
	if d.Settings.ThroughputLimit && !n.Bucket.Spend(c.Now, n.PerSecond(), n.PerSecond()) {
		return nil, wire.Refusal(130429, "Cloud API message throughput has been reached.").With(2494055)
	}
	if d.Settings.PairLimit && !d.PairLimits.Spend(n.Pair(user.Phone), c.Now) {
		return nil, wire.Refusal(131056,
			"Too many messages sent from this phone number to the same recipient in a short period of time.")
	}
	failure = s.laterFailure(m, n, user, c.Now)
	if failure != nil && failure.Code == 131047 && d.Settings.Window == "sync" {
		return nil, failure
	}
	return failure, nil
}

// laterFailure returns why an accepted message fails, nil when it does not.
func (s *Server) laterFailure(m *message, n *state.Number, user *state.User, now time.Time) *wire.Error {
	switch {
	case user.Absent:
		return wire.Refusal(131026, "Message Undeliverable.")
	case m.kind == wire.KindTemplate && m.template.Category == wire.CategoryMarketing && user.StoppedMarketing[n.Account.ID]:
		return wire.Refusal(131050, "The user has chosen to stop receiving marketing messages from this business.")
	case m.kind != wire.KindTemplate && s.Data.Settings.Window != "off" && !s.Data.Windows.IsOpen(n.Pair(user.Phone), now):
		return wire.Refusal(131047,
			"Message failed to send because more than 24 hours have passed since the customer last replied to this number.")
	case m.kind == wire.KindReaction:
		return s.reactionFailure(m, user)
	}
	return nil
}

// reactionFailure refuses a reaction to a reaction, and to a message of another chat.
func (s *Server) reactionFailure(m *message, user *state.User) *wire.Error {
	content, _ := m.content.(object)
	id, _ := content["message_id"].(string)
	digits, _, ok := wire.ReadMessageID(id)
	target := s.Data.Messages[id]
	if !ok || digits != user.Phone || target != nil && target.Type == wire.KindReaction {
		return wire.Refusal(131009, "The message that the reaction refers to does not exist or cannot be reacted to.")
	}
	return nil
}
