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
	why := reason(read[text](c.value["reason"]))
	fill(&why, reason(read[struct {
		Reason text `json:"reason"`
	}](c.value["rejection_info"]).Reason))
	status := strings.ToUpper(c.text("event"))
	if reviewOf(status) == provider.ReviewApproved {
		status = approved // an event such as a reinstatement leaves the template in this status
	}
	c.whole(provider.TemplateStatus{Template: c.template(), Status: status, Review: reviewOf(status), Reason: why})
}

func (c *change) templateQuality() {
	c.whole(provider.TemplateQuality{Template: c.template(), Score: c.text("new_quality_score")})
}

func (c *change) templateCategory() {
	c.whole(provider.TemplateCategory{
		Template: c.template(), Category: c.text("new_category"), Planned: c.text("correct_category") != "",
	})
}

func (c *change) templateComponents() { c.whole(provider.TemplateComponents{Template: c.template()}) }

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

// accountEvents are the events that concern sending.
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

// disabledUpdate is the event whose meaning depends on the state of the ban.
const disabledUpdate = "DISABLED_UPDATE"

var banStates = map[string]provider.AccountChange{
	"DISABLE":              provider.AccountDisabled,
	"REINSTATE":            provider.AccountReinstated,
	"SCHEDULE_FOR_DISABLE": provider.AccountWarned,
}

var restrictions = map[string]provider.RestrictionScope{
	"RESTRICTED_BIZ_INITIATED_MESSAGING":      provider.RestrictsInitiated,
	"RESTRICTED_CUSTOMER_INITIATED_MESSAGING": provider.RestrictsReplies,
	"RESTRICTED_UTILITY_TEMPLATES":            provider.RestrictsUtility,
}

// accountUpdate reads what happened to a business account. The reason of a disconnection is its
// event in lower case, followed by the provider's own reason where it gives one.
func (c *change) accountUpdate() {
	detail := read[struct {
		Ban struct {
			State text `json:"waba_ban_state"`
		} `json:"ban_info"`
		Disconnection struct {
			Reason text `json:"reason"`
			By     text `json:"initiated_by"`
		} `json:"disconnection_info"`
	}](c.raw)
	event := strings.ToUpper(c.text("event"))
	item := provider.AccountUpdate{Change: accountEvents[event], Restrictions: restrictionsIn(c.value["restriction_info"])}
	if event == disabledUpdate {
		item.Change = banStates[strings.ToUpper(string(detail.Ban.State))]
	}
	if item.Change == provider.AccountDisabled {
		item.Reason = "account_disabled"
	}
	if item.Change == provider.AccountDisconnected {
		item.Reason = strings.ToLower(event)
		if detail.Disconnection.By != "" && detail.Disconnection.Reason != "" {
			item.Reason += "_" + strings.ToLower(string(detail.Disconnection.Reason))
		}
	}
	c.whole(item)
}

// restrictionsIn reads the restrictions that refuse messages; others are of no consequence here.
func restrictionsIn(raw json.RawMessage) []provider.Restriction {
	var all []provider.Restriction
	for _, one := range elements(raw) {
		given := read[struct {
			Type    text            `json:"restriction_type"`
			Expires json.RawMessage `json:"expiration"`
		}](one)
		if scope := restrictions[strings.ToUpper(string(given.Type))]; scope != provider.RestrictsNothing {
			all = append(all, provider.Restriction{Scope: scope, ExpiresAt: moment(given.Expires)})
		}
	}
	return all
}

// accountAlert reads an alert; older callbacks have no object of their own for it.
func (c *change) accountAlert() {
	description := c.text("alert_description")
	fill(&description, string(read[struct {
		Description text `json:"alert_description"`
	}](c.value["alert_info"]).Description))
	c.whole(provider.AccountAlert{Description: line(description)})
}

func (c *change) accountReview() {
	c.whole(provider.AccountReview{Decision: strings.ToLower(c.text("decision"))})
}

func (c *change) capability() { c.whole(provider.Capability{DailyLimit: c.dailyLimit()}) }

func (c *change) numberQuality() { c.whole(provider.NumberQuality{DailyLimit: c.dailyLimit()}) }

// dailyLimit reads the limit; older callbacks have other names for it.
func (c *change) dailyLimit() provider.DailyLimit {
	for _, name := range []string{"max_daily_conversations_per_business", "max_daily_conversation_per_phone", "current_limit"} {
		if limit := daily(c.text(name)); limit != 0 {
			return limit
		}
	}
	return 0
}

// daily is a number, or the name of a tier such as TIER_2K.
func daily(given string) provider.DailyLimit {
	tier, named := strings.CutPrefix(strings.ToUpper(given), "TIER_")
	if named && tier == "UNLIMITED" {
		return -1
	}
	thousands, cut := strings.CutSuffix(tier, "K")
	count, _ := strconv.Atoi(thousands) // 0 says nothing
	if cut {
		count *= 1000
	}
	return provider.DailyLimit(count)
}

func (c *change) numberName() {
	c.whole(provider.NumberName{
		Approved: strings.EqualFold(c.text("decision"), approved), Name: c.text("requested_verified_name"),
	})
}

func (c *change) numberSecurity() { c.whole(provider.NumberSecurity{}) }

func (c *change) numberUsername() {
	c.whole(provider.NumberUsername{Username: username(text(c.text("username")))})
}
