package control

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// saveUser creates or changes a user.
func (s *Server) saveUser(c *request) (any, error) {
	digits, ok := wire.UserDigits(c.Form.Text("phone"))
	if !ok {
		return nil, wire.Refusal(100, "phone must be a phone number of 7 to 15 digits; got %q", c.Form.Text("phone"))
	}
	in := struct {
		state.User

		Window bool `json:"window"` // opens the 24-hour window with every number
	}{User: *s.Data.Users.ByPhone(digits)}
	if err := c.into(&in); err != nil {
		return nil, err
	}
	changed := in.User
	changed.Phone = digits
	s.Data.Users.Save(&changed)
	if in.Window {
		for _, n := range s.Data.Numbers {
			s.Data.Windows.Open(n.Pair(digits), c.Now)
		}
	}
	s.Feed.PublishState()
	return s.describeUser(&changed), nil
}

// describeUser returns a user with the user ids by business account.
func (s *Server) describeUser(user *state.User) object {
	described := object{}
	_ = json.Unmarshal(wire.Encode(user), &described) // cannot fail
	ids := object{}
	for id, owner := range s.Data.Accounts {
		ids[id] = user.UserID(owner)
	}
	described["user_ids"] = ids
	return described
}

// preferenceChange is the body of POST /sim/preferences.
type preferenceChange struct {
	chat

	Value  string `json:"value"`
	Detail string `json:"detail"`
}

// changePreferences has a user stop or resume the marketing of a business.
func (s *Server) changePreferences(c *request, in preferenceChange) (any, error) {
	if in.Value != "stop" && in.Value != "resume" && in.Value != "signup" {
		return nil, wire.Refusal(100, "value must be stop, resume or signup; got %q", in.Value)
	}
	n, user, err := s.numberAndUser(in.chat)
	if err != nil {
		return nil, err
	}
	changed := *user
	if changed.StoppedMarketing = maps.Clone(user.StoppedMarketing); changed.StoppedMarketing == nil {
		changed.StoppedMarketing = map[string]bool{}
	}
	changed.StoppedMarketing[n.Account.ID] = in.Value == "stop"
	s.Data.Users.Save(&changed)
	if in.Detail == "" {
		in.Detail = "User requested to " + in.Value + " marketing messages"
	}
	preference := object{
		"user_id": user.UserID(n.Account), "detail": in.Detail, "category": "marketing_messages", "value": in.Value,
		wire.FieldTimestamp: c.Now.Unix(),
	}
	setIfNotEmpty(preference, "wa_id", user.VisiblePhone())
	setIfNotEmpty(preference, "parent_user_id", user.ParentUserID(n.Account))
	if in.Value == "signup" {
		preference["signup_id"] = rand.Text()
	}
	s.NotifyNumber(n, "user_preferences", object{
		wire.FieldContacts: []state.Contact{state.ContactOf(user, n.Account)}, "user_preferences": []object{preference},
	})
	return wire.Success(), nil
}

// identityChange is the body of POST /sim/system.
type identityChange struct {
	chat

	Type     string `json:"type"`
	NewPhone string `json:"new_phone"`
	Body     string `json:"body"`
}

// changeIdentity changes the number, the user id or the security code of a user, and notifies
// the apps.
func (s *Server) changeIdentity(c *request, in identityChange) (any, error) {
	n, before, err := s.numberAndUser(in.chat)
	if err != nil {
		return nil, err
	}
	owner, after := n.Account, *before
	system := object{"type": in.Type, "body": in.Body}
	message := object{
		"id": wire.MessageID(before.Phone, wire.FromUser), wire.FieldTimestamp: state.UnixSeconds(c.Now), "type": "system", "system": system,
		"from_user_id": before.UserID(owner),
	}
	setIfNotEmpty(message, "from", before.VisiblePhone())
	switch in.Type {
	case "user_changed_number":
		digits, ok := wire.UserDigits(in.NewPhone)
		if !ok {
			return nil, wire.Refusal(100, "new_phone must be a phone number of 7 to 15 digits; got %q", in.NewPhone)
		}
		after.Phone, after.IDGeneration = digits, 0
		delete(s.Data.Users.Saved, before.Phone)
		setIfNotEmpty(system, "wa_id", after.VisiblePhone())
		system["body"] = "User " + before.Name + " changed from " + before.Phone + " to " + after.Phone
	case "user_changed_user_id":
		after.IDGeneration = (before.IDGeneration + 1) % state.MaxGenerations
		system["body"] = "User " + before.Name + " changed from " + before.UserID(owner) + " to " + after.UserID(owner)
	case "customer_identity_changed", "user_identity_changed":
		after.IdentityHash = rand.Text()
		message["identity"] = object{"acknowledged": false, "created_timestamp": state.UnixSeconds(c.Now), "hash": after.IdentityHash}
		system["body"] = before.Name + "'s security code changed"
	default:
		return nil, wire.Refusal(100, "type must be user_changed_number, user_changed_user_id, customer_identity_changed or "+
			"user_identity_changed; got %q", in.Type)
	}
	if in.Body != "" {
		system["body"] = in.Body
	}
	if !strings.HasSuffix(in.Type, "_identity_changed") {
		system["user_id"], system["previous_user_id"] = after.UserID(owner), before.UserID(owner)
		setIfNotEmpty(system, "parent_user_id", after.ParentUserID(owner))
		setIfNotEmpty(system, "previous_parent_user_id", before.ParentUserID(owner))
		s.Data.Users.RetireIDs(before.UserID(owner), before.ParentUserID(owner))
	}
	s.Data.Users.Save(&after)
	s.NotifyNumber(n, wire.FieldMessages, object{wire.FieldMessages: []object{message}})
	s.Feed.PublishState()
	return object{"id": message["id"], "user_id": after.UserID(owner)}, nil
}
