package conformance_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

var aboutTemplate = fields{"message_template_id": integer, "message_template_name": text, "message_template_language": text}

// Section 3.6, templates.
func TestCallbacks_Templates_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, listed := f.call(http.MethodGet, "/v24.0/"+wabaID+"/message_templates?name=hello_world", nil)
	id, _ := listed["data"].([]any)[0].(object)["id"].(string)
	status := aboutTemplate.and(fields{
		"event": text, "reason": either(text, func(path string, v any) []string {
			if v != nil {
				return fault(path, "not null")
			}
			return nil
		}), "message_template_category": one("MARKETING", "UTILITY", "AUTHENTICATION"), "disable_info?": fields{"disable_date": integer}.shape,
		"other_info?": fields{"title": text, "description": anything}.shape, "rejection_info?": fields{"reason": anything, "recommendation": text}.shape,
	})
	for _, event := range []string{
		"APPROVED", "REJECTED", "PENDING", "PAUSED", "DISABLED", "FLAGGED", "REINSTATED", "IN_APPEAL", "ARCHIVED", "UNARCHIVED", "DELETED",
		"PENDING_DELETION", "LIMIT_EXCEEDED", "LOCKED", "UNLOCKED",
	} {
		f.control("templates/"+id+"/review", object{"event": event, "description": "d", "recommendation": "r"})
		f.change("message_template_status_update", status.and(fields{"event": one(event)}).shape)
	}
	f.control("templates/"+id+"/quality", object{"new_quality_score": "RED"})
	f.change("message_template_quality_update", aboutTemplate.and(fields{
		"previous_quality_score": one("GREEN", "YELLOW", "RED", "UNKNOWN"), "new_quality_score": one("RED"),
	}).shape)
	f.control("templates/"+id+"/category", object{"correct_category": "MARKETING"})
	f.change("template_category_update", aboutTemplate.and(fields{
		"correct_category": one("MARKETING"), "new_category": one("UTILITY"), "category_update_timestamp": integer,
	}).shape)
	f.control("templates/"+id+"/category", object{"new_category": "MARKETING"})
	f.change("template_category_update", aboutTemplate.and(fields{"previous_category": one("UTILITY"), "new_category": one("MARKETING")}).shape)
}

// Section 3.6, accounts and numbers.
func TestCallbacks_AccountsAndNumbers_MatchTheDescription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	info := fields{"waba_info": fields{"waba_id": decimal, "owner_business_id": decimal}.shape}
	for event, detail := range map[string]fields{
		"PARTNER_ADDED": info, "PARTNER_APP_INSTALLED": info, "PARTNER_APP_UNINSTALLED": info, "ACCOUNT_DELETED": nil,
		"ACCOUNT_VIOLATION":   {"violation_info": fields{"violation_type": text}.shape},
		"ACCOUNT_RESTRICTION": {"restriction_info": list(fields{"restriction_type": text, "expiration": integer, "remediation?": text}.shape)},
		"DISABLED_UPDATE":     {"ban_info": fields{"waba_ban_state": one("DISABLE", "REINSTATE", "SCHEDULE_FOR_DISABLE"), "waba_ban_date": text}.shape},
		"AD_ACCOUNT_LINKED":   nil, "MM_LITE_TERMS_SIGNED": nil, "VERIFIED_ACCOUNT": nil, "AUTH_INTL_PRICE_ELIGIBILITY_UPDATE": nil,
		"BUSINESS_PRIMARY_LOCATION_COUNTRY_UPDATE": {"country": text}, "PARTNER_CLIENT_CERTIFICATION_STATUS_UPDATE": nil,
		"VOLUME_BASED_PRICING_TIER_UPDATE": nil,
	} {
		f.graph(http.MethodPost, wabaID+"/subscribed_apps", nil, success)
		f.control("account-update", object{"event": event})
		_, entry := f.change("account_update", fields{"event": one(event)}.and(detail).shape)
		if detail["waba_info"] != nil {
			require.NotEqual(t, wabaID, entry["id"], "the entry is the partner's portfolio")
		}
	}
	f.graph(http.MethodPost, wabaID+"/subscribed_apps", nil, success)
	for field, want := range map[string]fields{
		"account_alerts": {
			"entity_type": one("BUSINESS", "PHONE_NUMBER", "CURRENT_STATUS_ID"), "entity_id": text, "alert_info": fields{
				"alert_severity": one("CRITICAL", "WARNING", "INFORMATIONAL"), "alert_status": one("ACTIVE", "NONE"), "alert_type": text, "alert_description": text,
			}.shape,
		},
		"account_review_update": {"decision": one("APPROVED", "REJECTED", "PENDING", "DEFERRED")},
		"business_capability_update": {
			"max_daily_conversations_per_business": either(integer, text), "max_phone_numbers_per_business?": integer, "max_phone_numbers_per_waba?": integer,
		},
		"phone_number_quality_update": {
			"display_phone_number": digits, "event": text, "current_limit?": match("TIER_.*"), "old_limit?": match("TIER_.*"),
			"max_daily_conversations_per_business": either(integer, text),
		},
		"phone_number_name_update": {"display_phone_number": digits, "decision": text, "requested_verified_name": text, "rejection_reason": text},
		"security":                 {"display_phone_number": digits, "event": one("PIN_CHANGED", "PIN_RESET_REQUEST", "PIN_REQUEST_SUCCESS"), "requester?": text},
		"business_username_update": {"display_phone_number": digits, "username?": text, "status": one("approved", "reserved", "deleted")},
	} {
		f.control("notify", object{"field": field})
		f.change(field, want.shape)
	}
	for _, value := range []string{"stop", "resume", "signup"} {
		f.control("preferences", object{"from": ada, "value": value})
		f.change("user_preferences", fields{"messaging_product?": product, "metadata": metadata, "contacts": list(contact), "user_preferences": list(fields{
			"wa_id?": digits, "user_id": userID, "detail": text, "category": one("marketing_messages"), "value": one(value), "timestamp": integer,
			"signup_id?": text,
		}.shape)}.shape)
	}
}
