package graph

import (
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// message is the body of a send.
type message struct {
	kind      string
	to        string // as given
	recipient string // a user id
	content   any
	contextID string
	opaque    string
	identity  string          // hash of the recipient's identity key
	template  *state.Template // set by checkSend
}

// sendAnswer is the answer to an accepted send.
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

// source returns the id or the link of a message's file.
func source(m *message) (id, link string) {
	if !content.IsMedia(m.kind) {
		return "", ""
	}
	of, _ := m.content.(object)
	id, _ = of["id"].(string)
	link, _ = of["link"].(string)
	return id, link
}

// checkMedia refuses a file that this number did not upload, or that does not fit the type.
func (s *Server) checkMedia(n *state.Number, m *message, now time.Time) error {
	id, _ := source(m)
	if id == "" {
		return nil
	}
	found := s.Data.Files.Find(id, now)
	if found == nil || found.Number != n.ID {
		return wire.Refusal(100, "Param %s['id'] is not a valid whatsapp business account media attachment ID", m.kind)
	}
	if problem := content.Fits(m.kind, found.Mime, found.Size()); problem != "" {
		return wire.Refusal(131053, "%s", problem)
	}
	if of, _ := m.content.(object); of["voice"] == true && !strings.HasPrefix(found.Mime, "audio/ogg") {
		return wire.Refusal(131053, "A voice message must be audio/ogg with the codec opus, not %s.", found.Mime)
	}
	return nil
}

// readMessage reads the body of a send and checks what needs no state.
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
		if m.kind == wire.KindReaction && r.Err() == nil {
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

func newSendAnswer(m *message, d *state.Delivery) sendAnswer {
	target := sendTarget{Input: m.to, WaID: d.User.Phone}
	if m.to == "" {
		target = sendTarget{Input: m.recipient, UserID: m.recipient}
	} else if m.recipient != "" {
		target.UserID = m.recipient
	}
	result := sendResult{ID: d.ID}
	switch {
	case d.Outcome.Held:
		result.Status = "held_for_quality_assessment"
	case m.kind == wire.KindTemplate:
		result.Status = "accepted"
	}
	return sendAnswer{Product: wire.Product, Contacts: []sendTarget{target}, Messages: []sendResult{result}}
}
