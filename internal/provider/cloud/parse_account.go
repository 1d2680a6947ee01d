package cloud

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/provider"
)

func (c *change) template() provider.TemplateRef {
	return provider.TemplateRef{
		ID:   string(read[text](c.value["message_template_id"])),
		Name: string(read[text](c.value["message_template_name"])), Language: language(read[text](c.value["message_template_language"])),
	}
}

func (c *change) text(name string) string { return string(read[text](c.value[name])) }

// templateStatus reads a decision. A document shows scores under this field's name too.
func (c *change) templateStatus() {
	if _, scored := c.value["new_quality_score"]; scored {
		c.templateQuality()
		return
	}
	other := read[struct {
		Title       text `json:"title"`
		Description text `json:"description"`
	}](c.value["other_info"])
	rejection := read[struct {
		Reason         text `json:"reason"`
		Recommendation text `json:"recommendation"`
	}](c.value["rejection_info"])
	why := reason(read[text](c.value["reason"]))
	if why == "" {
		why = reason(rejection.Reason)
	}
	disabled := read[struct {
		Date json.RawMessage `json:"disable_date"`
	}](c.value["disable_info"])
	c.whole(provider.TemplateStatus{
		Template: c.template(), Event: strings.ToUpper(c.text("event")), Category: c.text("message_template_category"), Reason: why,
		Title: line(string(other.Title)), Description: line(string(other.Description)),
		Recommendation: line(string(rejection.Recommendation)), DisabledAt: moment(disabled.Date),
	})
}

func (c *change) templateQuality() {
	c.whole(provider.TemplateQuality{Template: c.template(), Previous: c.text("previous_quality_score"), Score: c.text("new_quality_score")})
}

func (c *change) templateCategory() {
	c.whole(provider.TemplateCategory{
		Template: c.template(), Previous: c.text("previous_category"), Category: c.text("new_category"), Planned: c.text("correct_category"),
		At: moment(c.value["category_update_timestamp"]),
	})
}

func (c *change) templateComponents() {
	c.whole(provider.TemplateComponents{
		Template: c.template(), Body: c.text("message_template_element"), Title: c.text("message_template_title"),
		Footer: c.text("message_template_footer"), Buttons: storable(c.value["message_template_buttons"]),
	})
}

// moment is a time in seconds or in one of the forms that documents show; zero when it is none.
func moment(raw json.RawMessage) time.Time {
	if at := read[whole](raw).at(); !at.IsZero() {
		return at
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05-0700", time.DateOnly, "January 2, 2006", "01/02/2006"} {
		if at, err := time.Parse(layout, string(read[text](raw))); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// accountEvents are the events that change what an account can do.
var accountEvents = map[string]provider.AccountChange{
	"PARTNER_ADDED":           provider.AccountAdded,
	"PARTNER_APP_INSTALLED":   provider.AccountAdded,
	"PARTNER_REMOVED":         provider.AccountDisconnected,
	"PARTNER_APP_UNINSTALLED": provider.AccountDisconnected,
	"ACCOUNT_DELETED":         provider.AccountDisconnected,
	"ACCOUNT_OFFBOARDED":      provider.AccountDisconnected,
	"ACCOUNT_RECONNECTED":     provider.AccountConnected,
	"ACCOUNT_RESTRICTION":     provider.AccountRestricted,
	"ACCOUNT_VIOLATION":       provider.AccountWarned,
}

var banStates = map[string]provider.AccountChange{
	"DISABLE":              provider.AccountDisconnected,
	"REINSTATE":            provider.AccountReinstated,
	"SCHEDULE_FOR_DISABLE": provider.AccountWarned,
}

var restrictions = map[string]provider.RestrictionScope{
	"RESTRICTED_BIZ_INITIATED_MESSAGING":      provider.RestrictsInitiated,
	"RESTRICTED_CUSTOMER_INITIATED_MESSAGING": provider.RestrictsReplies,
	"RESTRICTED_UTILITY_TEMPLATES":            provider.RestrictsUtility,
}

// accountUpdate reads what happened to a business account.
func (c *change) accountUpdate() {
	detail := read[struct {
		Violation struct {
			Type text `json:"violation_type"`
		} `json:"violation_info"`
		Ban struct {
			State text            `json:"waba_ban_state"`
			Date  json.RawMessage `json:"waba_ban_date"`
		} `json:"ban_info"`
		Disconnection struct {
			Reason text `json:"reason"`
			By     text `json:"initiated_by"`
		} `json:"disconnection_info"`
	}](c.raw)
	item := provider.AccountUpdate{
		Event: strings.ToUpper(c.text("event")), Violation: string(detail.Violation.Type), BanState: string(detail.Ban.State),
		BanDate: string(read[text](detail.Ban.Date)), InitiatedBy: string(detail.Disconnection.By), Country: c.text("country"),
	}
	item.Change = accountEvents[item.Event]
	if item.Event == "DISABLED_UPDATE" {
		item.Change = banStates[strings.ToUpper(item.BanState)]
	}
	item.Restrictions = restrictionsIn(c.value["restriction_info"])
	for _, why := range []string{string(detail.Disconnection.Reason), item.Violation, item.BanState} {
		fill(&item.Reason, why)
	}
	if len(item.Restrictions) > 0 {
		fill(&item.Reason, item.Restrictions[0].Type)
	}
	c.whole(item)
}

func restrictionsIn(raw json.RawMessage) []provider.Restriction {
	var all []provider.Restriction
	for _, one := range elements(raw) {
		given := read[struct {
			Type    text            `json:"restriction_type"`
			Expires json.RawMessage `json:"expiration"`
		}](one)
		all = append(all, provider.Restriction{
			Type: string(given.Type), Covers: restrictions[strings.ToUpper(string(given.Type))], ExpiresAt: moment(given.Expires),
		})
	}
	return all
}

func (c *change) accountAlert() {
	alert := read[struct {
		Severity    text `json:"alert_severity"`
		Status      text `json:"alert_status"`
		Type        text `json:"alert_type"`
		Description text `json:"alert_description"`
	}](c.value["alert_info"])
	if alert.Type == "" { // older callbacks have no object of their own for it
		alert = read[struct {
			Severity    text `json:"alert_severity"`
			Status      text `json:"alert_status"`
			Type        text `json:"alert_type"`
			Description text `json:"alert_description"`
		}](c.raw)
	}
	c.whole(provider.AccountAlert{
		EntityType: c.text("entity_type"), EntityID: c.text("entity_id"), Severity: string(alert.Severity), Status: string(alert.Status),
		Type: string(alert.Type), Description: line(string(alert.Description)),
	})
}

func (c *change) accountReview() {
	c.whole(provider.AccountReview{Decision: strings.ToUpper(c.text("decision"))})
}

func (c *change) capability() {
	number := func(name string) int { return read[whole](c.value[name]).int() }
	item := provider.Capability{
		DailyConversations: daily(c.text("max_daily_conversations_per_business")),
		NumbersPerBusiness: number("max_phone_numbers_per_business"), NumbersPerAccount: number("max_phone_numbers_per_waba"),
	}
	if item.DailyConversations == 0 {
		item.DailyConversations = daily(c.text("max_daily_conversation_per_phone"))
	}
	c.whole(item)
}

// daily is a number, or the name of a tier such as TIER_2K.
func daily(given string) int {
	tier, named := strings.CutPrefix(strings.ToUpper(given), "TIER_")
	if !named {
		count, _ := strconv.Atoi(given) // 0 says nothing
		return count
	}
	if tier == "UNLIMITED" {
		return -1
	}
	thousands, cut := strings.CutSuffix(tier, "K")
	count, _ := strconv.Atoi(thousands)
	if cut {
		count *= 1000
	}
	return count
}

func (c *change) numberQuality() {
	limit := c.text("max_daily_conversations_per_business")
	if limit == "" {
		limit = c.text("current_limit")
	}
	c.whole(provider.NumberQuality{Event: strings.ToUpper(c.text("event")), Limit: limit})
}

func (c *change) numberName() {
	c.whole(provider.NumberName{
		Decision: strings.ToUpper(c.text("decision")), Name: c.text("requested_verified_name"),
		Reason: reason(read[text](c.value["rejection_reason"])),
	})
}

func (c *change) numberSecurity() {
	c.whole(provider.NumberSecurity{Event: strings.ToUpper(c.text("event")), Requester: c.text("requester")})
}

func (c *change) numberUsername() {
	c.whole(provider.NumberUsername{Username: username(text(c.text("username"))), Status: c.text("status")})
}
