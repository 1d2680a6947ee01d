package control

import (
	"maps"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// inboundMessage is the body of POST /sim/inbound. Its content is in the field that Type names.
type inboundMessage struct {
	chat

	Type     string                `json:"type"`
	Context  object                `json:"context"`
	Referral object                `json:"referral"`
	Errors   []state.CallbackError `json:"errors"`
	Origin   string                `json:"origin"`
	Name     string                `json:"name"`
	Username *string               `json:"username"`
}

// receiveMessage has a user write to a number.
func (s *Server) receiveMessage(c *request, in inboundMessage) (any, error) {
	n, user, err := s.numberAndUser(in.chat)
	if err != nil {
		return nil, err
	}
	if in.Name != "" || in.Username != nil {
		user = s.renameUser(user, in)
	}
	content, err := s.completeContent(n, c, in.Type, c.Form[in.Type])
	if err != nil {
		return nil, err
	}
	return object{"id": s.addInbound(n, user, in, content, c.Now)}, nil
}

// renameUser stores the name and the username of a body.
func (s *Server) renameUser(user *state.User, in inboundMessage) *state.User {
	changed := *user
	if in.Name != "" {
		changed.Name = in.Name
	}
	if in.Username != nil {
		changed.Username = strings.TrimPrefix(*in.Username, "@")
	}
	s.Data.Users.Save(&changed)
	return &changed
}

// addInbound opens the 24-hour window, adds the message to the chat and notifies the apps.
func (s *Server) addInbound(n *state.Number, user *state.User, in inboundMessage, content any, now time.Time) (id string) {
	id = wire.MessageID(user.Phone, wire.FromUser)
	owner := n.Account
	message := object{
		"from_user_id": user.UserID(owner), "id": id, wire.FieldTimestamp: state.UnixSeconds(now), "type": in.Type, in.Type: content,
	}
	if in.Type == "errors" || in.Type == "from" { // the field of that name has another meaning
		message[in.Type] = nil
	}
	setIfNotEmpty(message, "from", user.VisiblePhone())
	setIfNotEmpty(message, "from_parent_user_id", user.ParentUserID(owner))
	setIfNotEmpty(message, "origin", in.Origin)
	if in.Context != nil {
		message["context"] = completeContext(n, user, in.Context)
	}
	if in.Referral != nil {
		message["referral"] = in.Referral
	}
	if in.Errors != nil {
		message["errors"] = in.Errors
	} else if in.Type == "unsupported" {
		message["errors"] = state.CallbackErrors(wire.Refusal(131051, "Message type is currently not supported."))
	}
	s.Data.Windows.Open(n.Pair(user.Phone), now)
	n.Bucket.Refill(now, n.PerSecond(), n.PerSecond())
	n.Bucket.Tokens-- // inbound messages count against the number's throughput
	s.Counters.Inbound.Add(1)
	contextID, _ := in.Context["id"].(string)
	added := &state.ChatMessage{
		ID: id, PhoneNumberID: n.ID, Phone: user.Phone, Type: in.Type, Content: content, ContextID: contextID, At: clock.Stamp(now),
		Status: "waiting",
	}
	s.AddMessage(added)
	s.ApplyEdit(in.Type, content)
	s.NotifyInbound(n, added, object{
		wire.FieldContacts: []state.Contact{state.ContactOf(user, owner)}, wire.FieldMessages: []object{message},
	})
	return id
}

// completeContext adds the sender of the message that is replied to.
func completeContext(n *state.Number, user *state.User, given object) object {
	context := maps.Clone(given)
	id, _ := given["id"].(string)
	if _, direction, ok := wire.ReadMessageID(id); ok && context["from"] == nil {
		switch {
		case direction == wire.ToUser:
			context["from"] = n.Digits
		case user.VisiblePhone() != "":
			context["from"] = user.Phone
		}
	}
	return context
}

// echoRequest is the body of POST /sim/echo.
type echoRequest struct {
	chat

	To       string `json:"to"` // the same as From
	Type     string `json:"type"`
	Context  object `json:"context"`
	Statuses bool   `json:"statuses"` // report statuses too
}

// sendEcho adds a message that the business wrote in its phone app.
func (s *Server) sendEcho(c *request, in echoRequest) (any, error) {
	if in.To != "" {
		in.From = in.To
	}
	n, user, err := s.numberAndUser(in.chat)
	if err != nil {
		return nil, err
	}
	content, err := s.completeContent(n, c, in.Type, c.Form[in.Type])
	if err != nil {
		return nil, err
	}
	owner, now := n.Account, c.Now
	id := wire.MessageID(user.Phone, wire.ToUser)
	echo := object{
		"from": n.Digits, "to_user_id": user.UserID(owner), "id": id, wire.FieldTimestamp: state.UnixSeconds(now), "type": in.Type,
		in.Type: content,
	}
	setIfNotEmpty(echo, "to", user.VisiblePhone())
	setIfNotEmpty(echo, "to_parent_user_id", user.ParentUserID(owner))
	if in.Context != nil {
		echo["context"] = in.Context
	}
	contact := state.ContactOf(user, owner)
	contact.Profile.Name = ""
	if contact.Profile.Username == "" {
		contact.Profile = nil
	}
	s.AddMessage(&state.ChatMessage{
		ID: id, PhoneNumberID: n.ID, Phone: user.Phone, Outbound: true, Echo: true, Type: in.Type, Content: content,
		At: clock.Stamp(now), Status: "sent",
	})
	s.ApplyEdit(in.Type, content)
	s.NotifyNumber(n, "smb_message_echoes", object{wire.FieldContacts: []state.Contact{contact}, "message_echoes": []object{echo}})
	if in.Statuses {
		s.ScheduleStatuses(&state.Delivery{Number: n, User: user, ID: id, Kind: in.Type, Category: "service", AcceptedAt: now, WindowOpen: true})
	}
	return object{"id": id}, nil
}
