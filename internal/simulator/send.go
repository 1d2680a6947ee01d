package simulator

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// message is a send as it was asked for.
type message struct {
	kind      string
	to        string // as given
	recipient string // a user id
	content   any
	contextID string
	opaque    string
	identity  string
	template  *template
}

// sendMarketing is the endpoint that takes nothing but marketing templates.
func (s *Simulator) sendMarketing(c *call) (any, error) {
	if c.form.Text("type") != kindTemplate {
		return nil, wire.Refusal(131055, "Only template messages are supported by this endpoint.")
	}
	return s.sendMessage(c)
}

// sendMessage accepts or refuses a send, or takes note of a read receipt.
func (s *Simulator) sendMessage(c *call) (any, error) {
	if c.form.Text(fieldProduct) != wire.Product {
		return nil, wire.Refusal(100, "The parameter messaging_product is required.")
	}
	if c.form["status"] != nil {
		return s.markRead(c)
	}
	m, err := readMessage(c.form)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	forced, taken, err := s.accept(c, &m)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if forced == (outcome{}) {
		return taken, nil
	}
	if err := s.delay(c, forced); err != nil {
		return nil, err
	}
	return &reply{outcome: forced, body: taken}, nil
}

// readMessage checks what can be checked without knowing anybody.
func readMessage(form object) (message, error) {
	r := &content.Reader{}
	m := message{
		kind: r.Text(form, "", "type", 0, 64), to: r.Text(form, "", "to", 0, 64), recipient: r.Text(form, "", "recipient", 0, 160),
		opaque: r.Text(form, "", "biz_opaque_callback_data", 0, 512), identity: r.Text(form, "", "recipient_identity_key_hash", 0, 512),
	}
	if recipientType := r.Text(form, "", "recipient_type", 0, 16); recipientType != "" && recipientType != "individual" && r.Err() == nil {
		return m, wire.Refusal(100, "Param recipient_type must be one of {individual} - got %q.", recipientType)
	}
	if r.Err() == nil && m.to == "" && m.recipient == "" {
		return m, wire.Refusal(100, "The parameter to is required.")
	}
	if m.kind == "" {
		m.kind = "text"
	}
	if context := r.Object(form, "", "context", false); context != nil {
		m.contextID = r.Text(context, "context", "message_id", 1, 512)
		if m.kind == kindReaction && r.Err() == nil {
			return m, wire.Refusal(131009, "A reaction cannot have a context.")
		}
	}
	if r.Err() != nil {
		return m, r.Err()
	}
	m.content = form[m.kind]
	if !content.Check(r, m.kind, m.content) {
		return m, wire.Refusal(100, "Param type must be one of {audio, contacts, document, image, interactive, location, reaction, sticker, "+
			"template, text, video} - got %q.", m.kind)
	}
	if m.content == nil {
		return m, wire.Refusal(131008, "Parameter '%s' is mandatory for type '%s'", m.kind, m.kind)
	}
	return m, r.Err()
}

// sendAnswer is what an accepted send is told.
type sendAnswer struct {
	Product  string       `json:"messaging_product"`
	Contacts []sendTarget `json:"contacts"`
	Messages []sendResult `json:"messages"`
}

type sendTarget struct {
	Input  string `json:"input"`
	WaID   string `json:"wa_id,omitempty"`
	UserID string `json:"user_id,omitempty"`
}

type sendResult struct {
	ID     string `json:"id"`
	Status string `json:"message_status,omitempty"`
}

// accept decides about a send and, when it is taken, starts its life. The caller holds
// the lock, and lets pass what the outcome asks for after it let go.
func (s *Simulator) accept(c *call, m *message) (outcome, any, error) {
	w, n := s.world, c.number
	if err := maySend(n); err != nil {
		return outcome{}, nil, err
	}
	who, err := s.recipient(n, m)
	if err != nil {
		return outcome{}, nil, err
	}
	forced, found := outcome{}, false
	if len(w.scripts) > 0 {
		name := ""
		if m.kind == kindTemplate {
			name = templateName(m.content)
		}
		forced, found = w.outcomeOf(attempt{to: who.Phone, phoneNumberID: n.ID, template: name})
	}
	if !found {
		forced = reserved(who.Phone)
	}
	if forced.DropRequest || forced.refuses() {
		return forced, nil, nil
	}
	failure, err := s.judge(c, m, who)
	if err != nil {
		return outcome{}, nil, err
	}
	if forced.AsyncCode != 0 {
		failure = wire.Refusal(forced.AsyncCode, "%s", forced.words("forced by the simulator"))
	}
	d := &dispatch{
		number: n, who: who, id: wire.MessageID(who.Phone, wire.ToUser), kind: m.kind, opaque: m.opaque,
		byUserID: m.to == "", at: c.now, failure: failure, outcome: forced, open: w.windows.isOpen(pair{n.ID, who.Phone}, c.now),
	}
	d.describe(m)
	s.counts.accepted.Add(1)
	w.sent.add(sentEntry{id: d.id, number: n, to: who.Phone, kind: m.kind, opaque: m.opaque, at: c.now})
	s.show(&bubble{
		ID: d.id, PhoneNumberID: n.ID, Phone: who.Phone, Outbound: true, Type: m.kind, Content: s.rendered(m),
		At: clock.Stamp(c.now), ContextID: m.contextID,
	})
	s.begin(d, m)
	return forced, acceptedAs(m, d), nil
}

func acceptedAs(m *message, d *dispatch) sendAnswer {
	target := sendTarget{Input: m.to, WaID: d.who.Phone}
	if m.to == "" {
		target = sendTarget{Input: m.recipient, UserID: m.recipient}
	} else if m.recipient != "" {
		target.UserID = m.recipient
	}
	result := sendResult{ID: d.id}
	switch {
	case d.outcome.Held:
		result.Status = "held_for_quality_assessment"
	case m.kind == kindTemplate:
		result.Status = "accepted"
	}
	return sendAnswer{Product: wire.Product, Contacts: []sendTarget{target}, Messages: []sendResult{result}}
}

// maySend tells whether the number can send at all.
func maySend(n *number) error {
	switch {
	case n.Account.Disabled:
		return wire.Refusal(131031, "The WhatsApp Business Account of this phone number is disabled.")
	case !n.registered():
		return wire.Refusal(133010, "Account not registered. Register the phone number before you send from it.")
	case n.Status == "RESTRICTED":
		return wire.Refusal(368, "The account is restricted from messaging.")
	}
	return nil
}

// recipient finds who is meant; a phone number wins over a user id.
func (s *Simulator) recipient(n *number, m *message) (*person, error) {
	if m.to == "" {
		who := s.world.people.byUserID(m.recipient, n.Account)
		if who == nil {
			return nil, wire.Refusal(131009, "The recipient is not a user ID of this business portfolio.")
		}
		return who, nil
	}
	digits, ok := wire.UserDigits(m.to)
	if !ok {
		return nil, wire.Refusal(131009, "Param to must be a phone number.")
	}
	if digits == n.Digits {
		return nil, wire.Refusal(131021, "The recipient is the sender.")
	}
	return s.world.people.byPhone(digits), nil
}

// judge refuses at once what the network refuses at once, and tells how an accepted
// message will fail.
func (s *Simulator) judge(c *call, m *message, who *person) (failure *wire.Error, err error) {
	w, n := s.world, c.number
	which := pair{n.ID, who.Phone}
	if m.identity != "" && who.IdentityHash != "" && m.identity != who.IdentityHash {
		return nil, wire.Refusal(137000, "The recipient's identity key hash does not match.")
	}
	if m.kind == kindTemplate {
		if m.template, err = s.sendable(n.Account, m); err != nil {
			return nil, err
		}
	}
	if err := s.usableMedia(n, m, c.now); err != nil {
		return nil, err
	}
	if w.settings.ThroughputLimit && !n.bucket.take(c.now, n.perSecond(), n.perSecond()) {
		return nil, wire.Refusal(130429, "Cloud API message throughput has been reached.").With(2494055)
	}
	if w.settings.PairLimit && !w.pairs.take(which, c.now) {
		return nil, wire.Refusal(131056,
			"Too many messages sent from this phone number to the same recipient in a short period of time.")
	}
	failure = s.fate(m, n, who, c.now)
	if failure != nil && failure.Code == 131047 && w.settings.Window == "sync" {
		return nil, failure
	}
	return failure, nil
}

// fate is how an accepted message fails by itself, nil when it does not.
func (s *Simulator) fate(m *message, n *number, who *person, now time.Time) *wire.Error {
	switch {
	case who.Absent:
		return wire.Refusal(131026, "Message Undeliverable.")
	case m.kind == kindTemplate && m.template.Category == categoryMarketing && who.stopped[n.Account.ID]:
		return wire.Refusal(131050, "The user has chosen to stop receiving marketing messages from this business.")
	case m.kind != kindTemplate && s.world.settings.Window != "off" && !s.world.windows.isOpen(pair{n.ID, who.Phone}, now):
		return wire.Refusal(131047,
			"Message failed to send because more than 24 hours have passed since the customer last replied to this number.")
	case m.kind == kindReaction:
		return s.reactionFate(m, who)
	}
	return nil
}

// reactionFate refuses a reaction to a reaction and to what was never said to or by the user.
func (s *Simulator) reactionFate(m *message, who *person) *wire.Error {
	content, _ := m.content.(object)
	id, _ := content["message_id"].(string)
	digits, _, ok := wire.ReadMessageID(id)
	target := s.world.bubbles[id]
	if !ok || digits != who.Phone || target != nil && target.Type == kindReaction {
		return wire.Refusal(131009, "The message that the reaction refers to does not exist or cannot be reacted to.")
	}
	return nil
}

// markRead marks a user's message, and all before it, as read by the business.
func (s *Simulator) markRead(c *call) (any, error) {
	id := c.form.Text("message_id")
	digits, direction, ok := wire.ReadMessageID(id)
	if c.form.Text("status") != "read" || !ok || direction != wire.FromUser {
		return nil, wire.Refusal(131009, "Param status must be read, and message_id a message that was received.")
	}
	typing, wanted := c.form["typing_indicator"].(object)
	if wanted && typing["type"] != "text" {
		return nil, wire.Refusal(131009, "Param typing_indicator['type'] must be one of {text}.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if target := s.world.bubbles[id]; target != nil && target.PhoneNumberID != c.number.ID {
		return nil, wire.Refusal(131009, "The message was received by another phone number.")
	}
	s.readByBusiness(c.number, digits, id)
	if wanted {
		s.live.publish("typing", object{"phone_number_id": c.number.ID, "phone": digits, "until": c.now.Add(25 * time.Second).UnixMilli()})
	}
	return success(), nil
}

// readable is an app's version as a number, 0 when it is none.
func readable(version string) (major int) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d", &major) // 0 is the answer then
	return major
}
