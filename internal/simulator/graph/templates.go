package graph

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// notifyComponents notifies the apps that a template was edited.
func (s *Server) notifyComponents(t *state.Template) {
	value := t.CallbackFields()
	value["message_template_element"] = t.Shape.BodyText
	if t.Shape.HeaderText != "" {
		value["message_template_title"] = t.Shape.HeaderText
	}
	if t.Shape.FooterText != "" {
		value["message_template_footer"] = t.Shape.FooterText
	}
	buttons := []object{}
	for _, b := range t.Shape.Buttons {
		buttons = append(buttons, object{"message_template_button_type": b.Kind, "message_template_button_text": b.Text})
	}
	if len(buttons) > 0 {
		value["message_template_buttons"] = buttons
	}
	s.NotifyAccount(t.Account, "message_template_components_update", value)
}

// defaultTemplateFields are the fields of a template when none are requested.
var defaultTemplateFields = []string{"name", "parameter_format", "components", "language", "status", "category", "sub_category", "id"}

func (s *Server) listTemplates(c *call) (any, error) {
	query := c.R.URL.Query()
	var listed []object
	for _, id := range slices.Sorted(maps.Keys(s.Data.Templates)) {
		t := s.Data.Templates[id]
		matches := func(name, has string) bool { return query.Get(name) == "" || strings.EqualFold(query.Get(name), has) }
		if t.Account == c.account && (query.Get("name") == "" || strings.Contains(t.Name, query.Get("name"))) &&
			matches("status", t.Status) && matches("language", t.Language) && matches("category", t.Category) {
			listed = append(listed, t.Describe())
		}
	}
	slices.Reverse(listed) // newest first
	return s.paginate(c, listed, defaultTemplateFields)
}

func (s *Server) readTemplate(c *call) (any, error) {
	read := c.template.Describe()
	read["health_status"] = state.Health(c.account, object{wire.FieldEntity: "MESSAGE_TEMPLATE", "id": c.template.ID},
		c.template.Status == wire.StatusApproved)
	return selectFields(read, c.R.URL.Query().Get("fields"), defaultTemplateFields), nil
}

// createTemplate stores a template and schedules its review.
func (s *Server) createTemplate(c *call) (any, error) {
	t := &state.Template{Status: "PENDING", Quality: "UNKNOWN", Format: "POSITIONAL", Account: c.account, Created: c.Now}
	t.Name, t.Language, t.Category = c.Form.Text("name"), c.Form.Text("language"), strings.ToUpper(c.Form.Text("category"))
	if format := strings.ToUpper(c.Form.Text("parameter_format")); format != "" {
		t.Format = format
	}
	t.Components, _ = c.Form["components"].([]any)
	t.TTL = c.Form["message_send_ttl_seconds"]
	if err := t.Check(); err != nil {
		return nil, err
	}
	w := s.Data
	if err := s.checkCreate(t, c.Now); err != nil {
		return nil, err
	}
	t.ID = w.NextID(state.TemplateSeries)
	w.AddTemplate(t)
	c.account.Created = append(c.account.Created, c.Now)
	s.ScheduleReview(t)
	return object{"id": t.ID, "status": t.Status, "category": t.Category}, nil
}

// checkCreate refuses a template that exists, and one beyond the limits of the account.
func (s *Server) checkCreate(t *state.Template, now time.Time) error {
	if s.Data.TemplatesByName[t.Key()] != nil {
		return wire.Refusal(100, "There is already %s content for this template.", t.Language).With(2388024).
			Said("Content in this language already exists",
				"There is already "+t.Language+" content for this template. You can create a new template and try again.")
	}
	t.Account.Created = slices.DeleteFunc(t.Account.Created, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	count := 0
	for _, other := range s.Data.Templates {
		if other.Account == t.Account {
			count++
		}
	}
	if count >= state.MaxTemplates || len(t.Account.Created) >= 100 {
		return wire.Refusal(100, "The limit of message templates is reached.").With(2388019).
			Said("Message template limit reached", "The account has as many message templates as it may have. Delete some, or wait an hour.")
	}
	return nil
}

func (s *Server) editTemplate(c *call) (any, error) {
	t := c.template
	if t.Status != wire.StatusApproved && t.Status != "REJECTED" && t.Status != "PAUSED" {
		return nil, wire.Refusal(100, "A template with status %s cannot be edited.", t.Status).With(2593002).
			Said("Message template cannot be edited", "Only templates that are approved, rejected or paused can be edited.")
	}
	changed := *t
	if category := strings.ToUpper(c.Form.Text("category")); category != "" && category != t.Category {
		if t.Status == wire.StatusApproved {
			return nil, wire.Refusal(100, "The category of an approved template cannot be edited.").With(2388049).
				Said("Category cannot be edited", "The category of an approved message template cannot be changed.")
		}
		changed.Category = category
	}
	if components, given := c.Form["components"].([]any); given {
		changed.Components = components
	}
	if format := strings.ToUpper(c.Form.Text("parameter_format")); format != "" {
		changed.Format = format
	}
	if err := changed.Check(); err != nil {
		return nil, err
	}
	if err := checkEdit(t, c.Now); err != nil {
		return nil, err
	}
	changed.Edits = append(slices.Clone(t.Edits), c.Now)
	changed.Status, changed.Rejected = "PENDING", ""
	*t = changed
	s.notifyComponents(t)
	s.ScheduleReview(t)
	return wire.Success(), nil
}

// checkEdit refuses an edit of an approved template beyond 1 in 24 hours and 10 in 30 days.
func checkEdit(t *state.Template, now time.Time) error {
	if t.Status != wire.StatusApproved {
		return nil
	}
	month := 0
	for _, at := range t.Edits {
		if now.Sub(at) < 24*time.Hour {
			month = 10
		}
		if now.Sub(at) < 30*24*time.Hour {
			month++
		}
	}
	if month >= 10 {
		return wire.Refusal(100, "An approved template can be edited once in 24 hours and 10 times in 30 days.").With(2388042).
			Said("Edit limit reached", "This message template was edited too often. Try again later.")
	}
	return nil
}

// deleteTemplates deletes all languages of a name, one template of it, or several ids.
func (s *Server) deleteTemplates(c *call) (any, error) {
	name, one := c.Form.Text("name"), c.Form.Text("hsm_id")
	several := strings.FieldsFunc(c.Form.Text("hsm_ids"), func(r rune) bool { return strings.ContainsRune(`[]", `, r) })
	if name == "" && len(several) == 0 {
		return nil, wire.Refusal(100, "The parameter name is required.")
	}
	var found []*state.Template
	for _, t := range s.Data.Templates {
		named := name == t.Name && (one == "" || one == t.ID)
		if t.Account == c.account && (named || slices.Contains(several, t.ID)) {
			found = append(found, t)
		}
	}
	if len(found) == 0 {
		return nil, wire.Refusal(100, "The message template does not exist.").With(2593002).
			Said("Message template not found", "The message template with this name or ID does not exist.")
	}
	for _, t := range found {
		if t.Status == "DISABLED" {
			return nil, wire.Refusal(100, "A disabled template cannot be deleted.").With(2388094).
				Said("Message template cannot be deleted", "A disabled message template cannot be deleted.")
		}
	}
	for _, t := range found {
		delete(s.Data.Templates, t.ID)
		delete(s.Data.TemplatesByName, t.Key())
	}
	return wire.Success(), nil
}

func (s *Server) unpauseTemplate(c *call) (any, error) {
	if c.template.Status != "PAUSED" {
		return object{"success": false, "reason": "The template is not paused."}, nil
	}
	s.ReviewTemplate(c.template, state.Review{Event: wire.StatusApproved, Title: "UNPAUSE"})
	return wire.Success(), nil
}
