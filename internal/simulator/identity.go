package simulator

import (
	"crypto/rand"
	"maps"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// preferenceChange is the body of POST /sim/preferences.
type preferenceChange struct {
	inbound

	Value  string `json:"value"`
	Detail string `json:"detail"`
}

// simPreferences lets a user stop or resume a business's marketing.
func (s *Simulator) simPreferences(c *controlled, in preferenceChange) (any, error) {
	if in.Value != "stop" && in.Value != "resume" && in.Value != "signup" {
		return nil, wire.Refusal(100, "value is stop, resume or signup")
	}
	n, who, err := s.between(in.inbound)
	if err != nil {
		return nil, err
	}
	changed := *who
	if changed.stopped = maps.Clone(who.stopped); changed.stopped == nil {
		changed.stopped = map[string]bool{}
	}
	changed.stopped[n.Account.ID] = in.Value == "stop"
	s.world.people.keep(&changed)
	if in.Detail == "" {
		in.Detail = "User requested to " + in.Value + " marketing messages"
	}
	preference := object{
		"user_id": who.userID(n.Account), "detail": in.Detail, "category": "marketing_messages", "value": in.Value,
		fieldTimestamp: c.now.Unix(),
	}
	put(preference, "wa_id", who.shownPhone())
	put(preference, "parent_user_id", who.parentUserID(n.Account))
	if in.Value == "signup" {
		preference["signup_id"] = rand.Text()
	}
	value := object{
		fieldProduct: wire.Product, fieldMetadata: n.metadata(), fieldContacts: []contact{contactOf(who, n.Account)},
		"user_preferences": []object{preference},
	}
	s.tell(event{account: n.Account, number: n, field: "user_preferences", at: c.now, value: value})
	return success(), nil
}

func (s *Simulator) between(in inbound) (*number, *person, error) {
	n, err := s.numberOf(in.PhoneNumberID)
	if err != nil {
		return nil, nil, err
	}
	who, err := s.personOf(n, in.From, in.UserID)
	return n, who, err
}

// put sets a field that is left out when it is empty.
func put(of object, name, value string) {
	if value != "" {
		of[name] = value
	}
}

// identityChange is the body of POST /sim/system.
type identityChange struct {
	inbound

	NewPhone string `json:"new_phone"`
	Body     string `json:"body"`
}

// simSystem changes who a user is, and tells it as the network does.
func (s *Simulator) simSystem(c *controlled, in identityChange) (any, error) {
	n, before, err := s.between(in.inbound)
	if err != nil {
		return nil, err
	}
	owner, after := n.Account, *before
	system := object{"type": in.Type, "body": in.Body}
	message := object{
		"id": wire.MessageID(before.Phone, wire.FromUser), fieldTimestamp: seconds(c.now), "type": "system", "system": system,
		"from_user_id": before.userID(owner),
	}
	put(message, "from", before.shownPhone())
	switch in.Type {
	case "user_changed_number":
		digits, ok := wire.UserDigits(in.NewPhone)
		if !ok {
			return nil, wire.Refusal(100, "new_phone is needed")
		}
		after.Phone, after.generation = digits, 0
		delete(s.world.people.known, before.Phone)
		put(system, "wa_id", after.shownPhone())
		system["body"] = "User " + before.Name + " changed from " + before.Phone + " to " + after.Phone
	case "user_changed_user_id":
		after.generation = (before.generation + 1) % maxGenerations
		system["body"] = "User " + before.Name + " changed from " + before.userID(owner) + " to " + after.userID(owner)
	case "customer_identity_changed", "user_identity_changed":
		after.IdentityHash = rand.Text()
		message["identity"] = object{"acknowledged": false, "created_timestamp": seconds(c.now), "hash": after.IdentityHash}
		system["body"] = before.Name + "'s security code changed"
	default:
		return nil, wire.Refusal(100, "type is user_changed_number, user_changed_user_id, customer_identity_changed or user_identity_changed")
	}
	if in.Body != "" {
		system["body"] = in.Body
	}
	if !strings.HasSuffix(in.Type, "_identity_changed") {
		system["user_id"], system["previous_user_id"] = after.userID(owner), before.userID(owner)
		put(system, "parent_user_id", after.parentUserID(owner))
		put(system, "previous_parent_user_id", before.parentUserID(owner))
		s.world.people.retire(before.userID(owner), before.parentUserID(owner))
	}
	s.world.people.keep(&after)
	value := object{fieldProduct: wire.Product, fieldMetadata: n.metadata(), fieldMessages: []object{message}}
	s.tell(event{account: owner, number: n, field: fieldMessages, value: value})
	s.live.publish("state", struct{}{})
	return object{"id": message["id"], "user_id": after.userID(owner)}, nil
}

// echoRequest is the body of POST /sim/echo.
type echoRequest struct {
	inbound

	To       string `json:"to"`
	Statuses bool   `json:"statuses"`
}

// simEcho lets the business write in its phone app.
func (s *Simulator) simEcho(c *controlled, in echoRequest) (any, error) {
	if in.To != "" {
		in.From = in.To
	}
	if in.Type == "" {
		in.Type = "text"
	}
	n, who, err := s.between(in.inbound)
	if err != nil {
		return nil, err
	}
	content, err := s.contentOf(n, c, in.Type, c.form[in.Type])
	if err != nil {
		return nil, err
	}
	owner, now := n.Account, c.now
	id := wire.MessageID(who.Phone, wire.ToUser)
	echo := object{
		"from": n.Digits, "to_user_id": who.userID(owner), "id": id, fieldTimestamp: seconds(now), "type": in.Type,
		in.Type: content,
	}
	put(echo, "to", who.shownPhone())
	put(echo, "to_parent_user_id", who.parentUserID(owner))
	if in.Context != nil {
		echo["context"] = in.Context
	}
	known := contactOf(who, owner)
	known.Profile.Name = ""
	if known.Profile.Username == "" {
		known.Profile = nil
	}
	value := object{
		fieldProduct: wire.Product, fieldMetadata: n.metadata(), fieldContacts: []contact{known}, "message_echoes": []object{echo},
	}
	s.show(&bubble{
		ID: id, PhoneNumberID: n.ID, Phone: who.Phone, Outbound: true, Echo: true, Type: in.Type, Content: content,
		At: clock.Stamp(now), Status: "sent",
	})
	s.change(in.Type, content)
	s.tell(event{account: owner, number: n, field: "smb_message_echoes", at: now, value: value})
	if in.Statuses {
		s.schedule(&dispatch{number: n, who: who, id: id, kind: in.Type, category: "service", at: now, open: true})
	}
	return object{"id": id}, nil
}

// notifyRequest is the body of POST /sim/notify.
type notifyRequest struct {
	PhoneNumberID string `json:"phone_number_id"`
	AccountID     string `json:"waba_id"`
	Field         string `json:"field"`
	Value         object `json:"value"`
}

// simNotify sends any field of section 3.5 and 3.6: a complete value, over which the
// given one is laid.
func (s *Simulator) simNotify(c *controlled, in notifyRequest) (any, error) {
	n, err := s.numberOf(in.PhoneNumberID)
	if err != nil {
		return nil, err
	}
	owner := n.Account
	if in.AccountID != "" {
		if owner, err = s.accountOf(in.AccountID); err != nil {
			return nil, err
		}
	}
	value := s.notice(n, in.Field, c.now)
	if value == nil && in.Value == nil {
		return nil, wire.Refusal(100, "the field %q needs its value", in.Field)
	}
	if value == nil {
		value = object{}
	}
	maps.Copy(value, in.Value)
	told := event{account: owner, number: n, field: in.Field, at: c.now, value: value}
	if in.Field == fieldMessages {
		told.at = time.Time{}
	}
	s.tell(told)
	return success(), nil
}

// notice is a complete value of a field.
func (s *Simulator) notice(n *number, field string, now time.Time) object {
	common := object{fieldProduct: wire.Product, fieldMetadata: n.metadata()}
	switch field {
	case "account_alerts":
		return object{fieldEntity: "BUSINESS", "entity_id": n.Account.Business, "alert_info": object{
			"alert_severity": "INFORMATIONAL", "alert_status": "ACTIVE", "alert_type": "OBA_APPROVED",
			"alert_description": "Your account has been approved as an official business account.",
		}}
	case "account_review_update":
		return object{"decision": statusApproved}
	case "business_capability_update":
		return object{"max_daily_conversations_per_business": 2000, "max_phone_numbers_per_business": 25, "max_phone_numbers_per_waba": 25}
	case "phone_number_quality_update":
		return object{
			fieldDisplay: n.Digits, "event": "ONBOARDING", "current_limit": "TIER_250",
			"max_daily_conversations_per_business": "TIER_250",
		}
	case "phone_number_name_update":
		return object{fieldDisplay: n.Digits, "decision": statusApproved, "requested_verified_name": n.Name, "rejection_reason": "NONE"}
	case "security":
		return object{fieldDisplay: n.Digits, "event": "PIN_CHANGED", "requester": "100000000000000"}
	case "business_username_update":
		return object{fieldDisplay: n.Digits, "username": "parley_demo", "status": "approved"}
	case "smb_app_state_sync":
		who := s.world.people.byPhone("15550100001")
		common["state_sync"] = []object{{
			"type": "contact", "action": "add", fieldMetadata: object{fieldTimestamp: seconds(now)}, "contact": object{
				"full_name": who.Name, "first_name": strings.Fields(who.Name)[0], "phone_number": who.Phone, "user_id": who.userID(n.Account),
			},
		}}
	case "history":
		common["history"] = []object{s.pastOf(n, now)}
	case fieldMessages:
		common["errors"] = told(wire.Refusal(131000, "Something went wrong on the network's side."))
	default:
		return nil
	}
	return common
}

// pastOf is a piece of what was said before a phone app's number was connected.
func (s *Simulator) pastOf(n *number, now time.Time) object {
	who := s.world.people.byPhone("15550100001")
	past := now.Add(-48 * time.Hour)
	return object{
		fieldMetadata: object{"phase": 0, "chunk_order": 1, "progress": 100},
		"threads": []object{{
			"id": who.Phone, "context": object{"wa_id": who.Phone, "user_id": who.userID(n.Account)}, fieldMessages: []object{{
				"from": who.Phone, "from_user_id": who.userID(n.Account), "id": wire.MessageID(who.Phone, wire.FromUser),
				fieldTimestamp: seconds(past), "type": "text", "text": object{"body": "Are you open on Sunday?"},
				"history_context": object{"status": "READ"},
			}, {
				"from": n.Digits, "to": who.Phone, "id": wire.MessageID(who.Phone, wire.ToUser), fieldTimestamp: seconds(past.Add(time.Minute)),
				"type": "text", "text": object{"body": "From 10 to 16."}, "history_context": object{"status": "DELIVERED"},
			}},
		}},
	}
}
