package simulator

import (
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// tellAccount tells something about an account; the entry carries the time.
func (s *Simulator) tellAccount(owner *account, field string, value object) {
	s.tell(event{account: owner, field: field, at: s.Now(), value: value})
}

// review is a decision about a template, as /sim takes it.
type review struct {
	Event          string `json:"event"`
	Reason         string `json:"reason"`
	Title          string `json:"title"`
	Description    string `json:"description"`
	Recommendation string `json:"recommendation"`
}

// statusAfter are the events that leave a template in another status than their name.
var statusAfter = map[string]string{
	"REINSTATED": statusApproved, "FLAGGED": statusApproved, "UNARCHIVED": statusApproved, "LOCKED": statusApproved,
	"UNLOCKED": statusApproved,
}

// review decides about a template and tells the apps; the caller holds the lock.
func (s *Simulator) review(t *template, r review) {
	t.Status = r.Event
	if status, differs := statusAfter[r.Event]; differs {
		t.Status = status
	}
	t.Rejected = ""
	value := object{
		"event": r.Event, "message_template_id": integer(t.ID), "message_template_name": t.Name, "message_template_language": t.Language,
		"message_template_category": t.Category, "reason": "NONE",
	}
	if r.Reason != "" {
		value["reason"] = r.Reason
	}
	switch r.Event {
	case "REJECTED":
		if t.Rejected = r.Reason; t.Rejected == "" {
			t.Rejected = "INVALID_FORMAT"
		}
		value["reason"] = t.Rejected
		if r.Recommendation != "" {
			value["rejection_info"] = object{"reason": r.Description, "recommendation": r.Recommendation}
		}
	case "DISABLED":
		value["disable_info"] = object{"disable_date": s.Now().Unix()}
		value["other_info"] = object{"title": "DISABLED", "description": r.Description}
	case "PAUSED":
		if r.Title == "" {
			r.Title = "FIRST_PAUSE"
		}
	}
	if r.Title != "" {
		value["other_info"] = object{"title": r.Title, "description": r.Description}
	}
	s.tellAccount(t.account, "message_template_status_update", value)
}

func (s *Simulator) componentsUpdate(t *template) {
	value := object{
		"message_template_id": integer(t.ID), "message_template_name": t.Name, "message_template_language": t.Language,
		"message_template_element": t.shape.BodyText,
	}
	if t.shape.HeaderText != "" {
		value["message_template_title"] = t.shape.HeaderText
	}
	if t.shape.FooterText != "" {
		value["message_template_footer"] = t.shape.FooterText
	}
	buttons := []object{}
	for _, b := range t.shape.Buttons {
		buttons = append(buttons, object{"message_template_button_type": b.Kind, "message_template_button_text": b.Text})
	}
	if len(buttons) > 0 {
		value["message_template_buttons"] = buttons
	}
	s.tellAccount(t.account, "message_template_components_update", value)
}

// simReview decides about a template.
func (s *Simulator) simReview(c *controlled, decided review) (any, error) {
	if decided.Event == "" {
		decided.Event = statusApproved
	}
	return s.aboutTemplate(c, func(t *template) { s.review(t, decided) })
}

func (s *Simulator) simTemplateQuality(c *controlled) (any, error) {
	return s.aboutTemplate(c, func(t *template) {
		before := t.Quality
		if t.Quality = c.form.Text("new_quality_score"); t.Quality == "" {
			t.Quality = "GREEN"
		}
		s.tellAccount(t.account, "message_template_quality_update", object{
			"previous_quality_score": before, "new_quality_score": t.Quality, "message_template_id": integer(t.ID),
			"message_template_name": t.Name, "message_template_language": t.Language,
		})
	})
}

// simTemplateCategory moves a template to another category, or warns that it will.
func (s *Simulator) simTemplateCategory(c *controlled) (any, error) {
	return s.aboutTemplate(c, func(t *template) {
		value := object{
			"message_template_id": integer(t.ID), "message_template_name": t.Name, "message_template_language": t.Language,
		}
		if correct := c.form.Text("correct_category"); correct != "" {
			value["new_category"], value["correct_category"] = t.Category, correct
			value["category_update_timestamp"] = s.Now().Add(24 * time.Hour).Unix()
		} else {
			t.Previous = t.Category
			if t.Category = c.form.Text("new_category"); t.Category == "" {
				t.Category = categoryMarketing
			}
			value["previous_category"], value["new_category"] = t.Previous, t.Category
		}
		s.tellAccount(t.account, "template_category_update", value)
	})
}

func (s *Simulator) aboutTemplate(c *controlled, do func(t *template)) (any, error) {
	t := s.world.templates[c.id]
	if t == nil {
		return nil, wire.Refusal(100, "there is no template %s", c.id)
	}
	do(t)
	return t.read(), nil
}

// simAccountUpdate tells what happened to an account, and lets it have happened.
func (s *Simulator) simAccountUpdate(c *controlled) (any, error) {
	owner, err := s.accountOf(c.form.Text("waba_id"))
	if err != nil {
		return nil, err
	}
	value := maps.Clone(c.form)
	delete(value, "waba_id")
	name, _ := value["event"].(string)
	if name == "" {
		return nil, wire.Refusal(100, "event is needed")
	}
	s.detail(owner, name, value)
	told := event{account: owner, field: "account_update", at: c.now, value: value}
	if partner[name] { // these come in the name of the partner
		told.entry = owner.Business
	}
	s.tell(told)
	if name == "PARTNER_REMOVED" || name == "PARTNER_APP_UNINSTALLED" || name == "ACCOUNT_DELETED" {
		clear(owner.subscribed)
	}
	return success(), nil
}

// partner are the events whose entry is the partner's portfolio.
var partner = map[string]bool{
	"PARTNER_ADDED": true, "PARTNER_REMOVED": true, "PARTNER_APP_INSTALLED": true, "PARTNER_APP_UNINSTALLED": true,
}

// detail adds the object that an event always carries, and changes the account.
func (s *Simulator) detail(owner *account, name string, value object) {
	add := func(key string, usual any) {
		if value[key] == nil {
			value[key] = usual
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
		for _, one := range list {
			of, _ := one.(object)
			kind, _ := of["restriction_type"].(string)
			owner.Restrictions = append(owner.Restrictions, kind)
		}
	case "DISABLED_UPDATE":
		add("ban_info", object{"waba_ban_state": "DISABLE", "waba_ban_date": s.Now().Format("January 2, 2006")})
		of, _ := value["ban_info"].(object)
		owner.Disabled = of["waba_ban_state"] == "DISABLE"
		if of["waba_ban_state"] == "REINSTATE" {
			owner.Restrictions = nil
		}
	case "ACCOUNT_OFFBOARDED", "ACCOUNT_RECONNECTED":
		for _, n := range s.world.numbersOf(owner) {
			if n.Status = statusConnected; name == "ACCOUNT_OFFBOARDED" {
				n.Status = "DISCONNECTED"
			}
			add("phone_number", n.Digits)
		}
	case "BUSINESS_PRIMARY_LOCATION_COUNTRY_UPDATE":
		add("country", "PT")
	}
}

func (s *Simulator) accountOf(id string) (*account, error) {
	if id == "" {
		id = DefaultAccountID
	}
	if owner := s.world.accounts[id]; owner != nil {
		return owner, nil
	}
	return nil, wire.Refusal(100, "there is no business account %s; there are %v", id, slices.Sorted(maps.Keys(s.world.accounts)))
}
