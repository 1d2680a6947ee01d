package control

import (
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// notifyRequest is the body of POST /sim/notify.
type notifyRequest struct {
	PhoneNumberID string `json:"phone_number_id"`
	AccountID     string `json:"waba_id"`
	Field         string `json:"field"`
	Value         object `json:"value"`
}

// notifyField queues a callback about any field. The given value replaces fields of a sample.
func (s *Server) notifyField(c *request, in notifyRequest) (any, error) {
	n, err := s.findNumber(in.PhoneNumberID)
	if err != nil {
		return nil, err
	}
	owner := n.Account
	if in.AccountID != "" {
		if owner, err = s.findAccount(in.AccountID); err != nil {
			return nil, err
		}
	}
	value := s.SampleValue(n, in.Field, c.Now)
	if value == nil && in.Value == nil {
		return nil, wire.Refusal(100, "value is required for the field %q", in.Field)
	}
	if value == nil {
		value = object{}
	}
	maps.Copy(value, in.Value)
	s.Notify(state.Notification{Account: owner, Number: n, Field: in.Field, Value: value})
	return wire.Success(), nil
}

// updateAccount applies an account_update to an account and notifies the apps.
func (s *Server) updateAccount(c *request) (any, error) {
	owner, err := s.findAccount(c.Form.Text("waba_id"))
	if err != nil {
		return nil, err
	}
	value := object{}
	for field, detail := range c.Form {
		if field == "waba_id" {
			continue
		}
		if !accountUpdateFields[field] {
			return nil, wire.Refusal(100, "there is no field %q; there are waba_id and %v", field, slices.Sorted(maps.Keys(accountUpdateFields)))
		}
		value[field] = detail
	}
	name, _ := value["event"].(string)
	if name == "" {
		return nil, wire.Refusal(100, "event is required")
	}
	s.completeAccountUpdate(owner, name, value)
	notification := state.Notification{Account: owner, Field: "account_update", Value: value}
	if partnerEvents[name] {
		notification.EntryID = owner.Business
	}
	s.Notify(notification)
	if name == "PARTNER_REMOVED" || name == "PARTNER_APP_UNINSTALLED" || name == "ACCOUNT_DELETED" {
		clear(owner.Subscribed)
	}
	return wire.Success(), nil
}

// accountUpdateFields holds the fields of an account_update: the event, and the details of one or the other.
var accountUpdateFields = map[string]bool{
	"event": true, "waba_info": true, "violation_info": true, "ban_info": true, "restriction_info": true, "disconnection_info": true,
	"auth_international_rate_eligibility": true, "partner_client_certification_info": true, "volume_tier_info": true, "country": true,
	"phone_number": true,
}

// partnerEvents holds the events whose entry id is the partner's portfolio.
var partnerEvents = map[string]bool{
	"PARTNER_ADDED": true, "PARTNER_REMOVED": true, "PARTNER_APP_INSTALLED": true, "PARTNER_APP_UNINSTALLED": true,
}

// completeAccountUpdate adds the details that an event always has, and changes the account.
func (s *Server) completeAccountUpdate(owner *state.Account, name string, value object) {
	add := func(key string, sample any) {
		if value[key] == nil {
			value[key] = sample
		}
	}
	switch name {
	case "PARTNER_ADDED", "PARTNER_APP_INSTALLED", "PARTNER_APP_UNINSTALLED":
		add("waba_info", object{"waba_id": owner.ID, "owner_business_id": owner.Business})
	case "PARTNER_REMOVED":
		add("waba_info", object{"waba_id": owner.ID, "owner_business_id": owner.Business})
		add("disconnection_info", object{"reason": "ACCOUNT_DISCONNECTED", "initiated_by": "USER"})
	case "ACCOUNT_VIOLATION":
		add("violation_info", object{"violation_type": "SPAM"})
	case "ACCOUNT_RESTRICTION":
		add("restriction_info", []any{object{
			"restriction_type": "RESTRICTED_BIZ_INITIATED_MESSAGING", "expiration": s.Now().Add(24 * time.Hour).Unix(),
		}})
		owner.Restrictions = nil
		list, _ := value["restriction_info"].([]any)
		for _, item := range list {
			restriction, _ := item.(object)
			kind, _ := restriction["restriction_type"].(string)
			owner.Restrictions = append(owner.Restrictions, kind)
		}
	case "DISABLED_UPDATE":
		add("ban_info", object{"waba_ban_state": "DISABLE", "waba_ban_date": s.Now().Format("January 2, 2006")})
		ban, _ := value["ban_info"].(object)
		owner.Disabled = ban["waba_ban_state"] == "DISABLE"
		if ban["waba_ban_state"] == "REINSTATE" {
			owner.Restrictions = nil
		}
	case "ACCOUNT_OFFBOARDED", "ACCOUNT_RECONNECTED":
		for _, n := range s.Data.NumbersOf(owner) {
			if n.Status = wire.StatusConnected; name == "ACCOUNT_OFFBOARDED" {
				n.Status = "DISCONNECTED"
			}
			add("phone_number", n.Digits)
		}
	case "BUSINESS_PRIMARY_LOCATION_COUNTRY_UPDATE":
		add("country", "PT")
	}
}
