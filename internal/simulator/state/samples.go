package state

import (
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// SampleValue returns a complete value for a field of callbacks, nil for an unknown field.
// The caller holds the lock.
func (s *Simulation) SampleValue(n *Number, field string, now time.Time) map[string]any {
	common := object{wire.FieldProduct: wire.Product, wire.FieldMetadata: n.Metadata()}
	switch field {
	case "account_alerts":
		return object{wire.FieldEntity: "BUSINESS", "entity_id": n.Account.Business, "alert_info": object{
			"alert_severity": "INFORMATIONAL", "alert_status": "ACTIVE", "alert_type": "OBA_APPROVED",
			"alert_description": "Your account has been approved as an official business account.",
		}}
	case "account_review_update":
		return object{"decision": wire.StatusApproved}
	case "business_capability_update":
		return object{"max_daily_conversations_per_business": 2000, "max_phone_numbers_per_business": 25, "max_phone_numbers_per_waba": 25}
	case "phone_number_quality_update":
		return object{
			wire.FieldDisplay: n.Digits, "event": "ONBOARDING", "current_limit": "TIER_250",
			"max_daily_conversations_per_business": "TIER_250",
		}
	case "phone_number_name_update":
		return object{wire.FieldDisplay: n.Digits, "decision": wire.StatusApproved, "requested_verified_name": n.Name, "rejection_reason": "NONE"}
	case "security":
		return object{wire.FieldDisplay: n.Digits, "event": "PIN_CHANGED", "requester": "100000000000000"}
	case "business_username_update":
		return object{wire.FieldDisplay: n.Digits, "username": "parley_demo", "status": "approved"}
	case "smb_app_state_sync":
		user := s.Data.Users.ByPhone("15550100001")
		common["state_sync"] = []object{{
			"type": "contact", "action": "add", wire.FieldMetadata: object{wire.FieldTimestamp: UnixSeconds(now)}, "contact": object{
				"full_name": user.Name, "first_name": strings.Fields(user.Name)[0], "phone_number": user.Phone, "user_id": user.UserID(n.Account),
			},
		}}
	case "history":
		common["history"] = []object{s.sampleHistory(n, now)}
	case wire.FieldMessages:
		common["errors"] = CallbackErrors(wire.Refusal(131000, "Something went wrong on the network's side."))
	default:
		return nil
	}
	return common
}

// sampleHistory returns a chunk of the chat history of a number in the phone app.
func (s *Simulation) sampleHistory(n *Number, now time.Time) object {
	user := s.Data.Users.ByPhone("15550100001")
	past := now.Add(-48 * time.Hour)
	return object{
		wire.FieldMetadata: object{"phase": 0, "chunk_order": 1, "progress": 100},
		"threads": []object{{
			"id": user.Phone, "context": object{"wa_id": user.Phone, "user_id": user.UserID(n.Account)}, wire.FieldMessages: []object{{
				"from": user.Phone, "from_user_id": user.UserID(n.Account), "id": wire.MessageID(user.Phone, wire.FromUser),
				wire.FieldTimestamp: UnixSeconds(past), "type": "text", "text": object{"body": "Are you open on Sunday?"},
				"history_context": object{"status": "READ"},
			}, {
				"from": n.Digits, "to": user.Phone, "id": wire.MessageID(user.Phone, wire.ToUser),
				wire.FieldTimestamp: UnixSeconds(past.Add(time.Minute)),
				"type":              "text", "text": object{"body": "From 10 to 16."}, "history_context": object{"status": "DELIVERED"},
			}},
		}},
	}
}
