package state

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Review is a decision about a template.
type Review struct {
	Event          string `json:"event"`
	Reason         string `json:"reason"`
	Title          string `json:"title"`
	Description    string `json:"description"`
	Recommendation string `json:"recommendation"`
}

// statusAfter holds the events after which a template has another status than their name.
var statusAfter = map[string]string{
	"REINSTATED": wire.StatusApproved, "FLAGGED": wire.StatusApproved, "UNARCHIVED": wire.StatusApproved, "LOCKED": wire.StatusApproved,
	"UNLOCKED": wire.StatusApproved,
}

var namePattern = regexp.MustCompile(`^[a-z0-9_]{1,512}$`)

// Template is a message template of a business account.
type Template struct {
	ID         string
	Name       string
	Language   string
	Category   string
	Status     string
	Format     string
	Components []any
	Rejected   string // reason, empty unless rejected
	Quality    string
	Previous   string // category before the last change
	TTL        any    // as it was given

	Account *Account
	Shape   content.Shape
	Edits   []time.Time // when it was edited
	Created time.Time
}

// TemplateKey identifies a template of an account.
type TemplateKey struct{ Account, Name, Language string }

// ReviewTemplate sets the status of a template and notifies the apps. The caller holds the lock.
func (s *Simulation) ReviewTemplate(t *Template, r Review) {
	t.Status = r.Event
	if status, differs := statusAfter[r.Event]; differs {
		t.Status = status
	}
	t.Rejected = ""
	value := t.CallbackFields()
	value["event"], value["message_template_category"], value["reason"] = r.Event, t.Category, "NONE"
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
	s.NotifyAccount(t.Account, "message_template_status_update", value)
}

// Check refuses what the network refuses at creation, and sets Shape.
func (t *Template) Check() error {
	switch {
	case !namePattern.MatchString(t.Name):
		return content.Malformed(2388023, "Invalid name",
			"Message template names can only have lowercase letters, digits and underscores, up to 512.")
	case t.Language == "":
		return wire.Refusal(100, "The parameter language is required.")
	case t.Category != wire.CategoryMarketing && t.Category != "UTILITY" && t.Category != wire.CategoryAuthentication:
		return wire.Refusal(100, "Param category must be one of {AUTHENTICATION, MARKETING, UTILITY}.")
	case t.Format != "POSITIONAL" && t.Format != "NAMED":
		return wire.Refusal(100, "Param parameter_format must be one of {POSITIONAL, NAMED}.")
	case len(t.Components) == 0:
		return wire.Refusal(100, "The parameter components is required.")
	}
	shape, err := content.ParseTemplate(content.Template{Category: t.Category, Format: t.Format, Components: t.Components})
	if err != nil {
		return err
	}
	t.Shape = shape
	return nil
}

// Key returns the key of a template.
func (t *Template) Key() TemplateKey { return TemplateKey{t.Account.ID, t.Name, t.Language} }

// Describe returns a template with all fields of the API.
func (t *Template) Describe() map[string]any {
	described := object{
		"id": t.ID, "name": t.Name, "language": t.Language, "category": t.Category, "status": t.Status,
		"components": t.listedComponents(), "parameter_format": t.Format, "sub_category": "CUSTOM",
		"quality_score": object{"score": t.Quality, "date": t.Created.Unix()}, "rejected_reason": "NONE",
	}
	if t.Rejected != "" {
		described["rejected_reason"] = t.Rejected
	}
	if t.Previous != "" {
		described["previous_category"] = t.Previous
	}
	if t.TTL != nil {
		described["message_send_ttl_seconds"] = t.TTL
	}
	return described
}

// listedComponents returns the components; an OTP button becomes a URL button, as on the
// network.
func (t *Template) listedComponents() []any {
	listed := make([]any, 0, len(t.Components))
	for _, component := range t.Components {
		of, _ := component.(object)
		buttons, _ := of["buttons"].([]any)
		if t.Category != wire.CategoryAuthentication || buttons == nil {
			listed = append(listed, component)
			continue
		}
		copied := maps.Clone(of)
		copied["buttons"] = []any{object{
			"type": "URL", "text": "Copy code", "url": "https://www.whatsapp.com/otp/code/?otp_type=COPY_CODE&code=otp{{1}}",
		}}
		listed = append(listed, copied)
	}
	return listed
}

// AddTemplate stores a template.
func (d *Data) AddTemplate(t *Template) {
	d.Templates[t.ID], d.TemplatesByName[t.Key()] = t, t
}

// ScheduleReview has a template reviewed after the delay of the settings. A name with
// "reject" is rejected, a name with "pending" is never reviewed.
func (s *Simulation) ScheduleReview(t *Template) {
	delay := s.Data.Settings.ReviewDelayMS
	if delay < 0 || strings.Contains(t.Name, "pending") {
		return
	}
	s.Scheduler.At(s.Now().Add(time.Duration(delay)*time.Millisecond), func() {
		s.Lock()
		defer s.Unlock()
		if s.Data.Templates[t.ID] != t || t.Status != "PENDING" {
			return
		}
		decision := Review{Event: wire.StatusApproved}
		if strings.Contains(t.Name, "reject") {
			decision = Review{Event: "REJECTED", Reason: "INVALID_FORMAT"}
		}
		s.ReviewTemplate(t, decision)
	})
}

// CallbackFields returns what every callback about a template carries.
func (t *Template) CallbackFields() map[string]any {
	id, _ := strconv.ParseInt(t.ID, 10, 64) // the simulator's ids are decimal
	return object{"message_template_id": id, "message_template_name": t.Name, "message_template_language": t.Language}
}
