package simulator

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// template is a message that was, or was not yet, approved.
type template struct {
	ID         string
	Name       string
	Language   string
	Category   string
	Status     string
	Format     string
	Components []any
	Rejected   string
	Quality    string
	Previous   string // category
	TTL        any

	account *account
	shape   content.Shape
	edits   []time.Time
	created time.Time
}

type templateName3 struct{ account, name, language string }

func (t *template) key() templateName3 { return templateName3{t.account.ID, t.Name, t.Language} }

func (t *template) read() object {
	read := object{
		"id": t.ID, "name": t.Name, "language": t.Language, "category": t.Category, "status": t.Status,
		"components": t.shownComponents(), "parameter_format": t.Format, "sub_category": "CUSTOM",
		"quality_score": object{"score": t.Quality, "date": t.created.Unix()}, "rejected_reason": "NONE",
	}
	if t.Rejected != "" {
		read["rejected_reason"] = t.Rejected
	}
	if t.Previous != "" {
		read["previous_category"] = t.Previous
	}
	if t.TTL != nil {
		read["message_send_ttl_seconds"] = t.TTL
	}
	return read
}

// shownComponents reads an OTP button back as a URL button, as the network does.
func (t *template) shownComponents() []any {
	shown := make([]any, 0, len(t.Components))
	for _, component := range t.Components {
		of, _ := component.(object)
		buttons, _ := of["buttons"].([]any)
		if t.Category != categoryAuthentication || buttons == nil {
			shown = append(shown, component)
			continue
		}
		copied := maps.Clone(of)
		copied["buttons"] = []any{object{
			"type": "URL", "text": "Copy code", "url": "https://www.whatsapp.com/otp/code/?otp_type=COPY_CODE&code=otp{{1}}",
		}}
		shown = append(shown, copied)
	}
	return shown
}

// defaultFields are what a list shows unless it is asked for more.
var defaultTemplateFields = []string{"name", "parameter_format", "components", "language", "status", "category", "sub_category", "id"}

func (s *Simulator) listTemplates(c *call) (any, error) {
	query := c.r.URL.Query()
	var listed []object
	for _, id := range slices.Sorted(maps.Keys(s.world.templates)) {
		t := s.world.templates[id]
		wanted := func(name, has string) bool { return query.Get(name) == "" || strings.EqualFold(query.Get(name), has) }
		if t.account == c.account && (query.Get("name") == "" || strings.Contains(t.Name, query.Get("name"))) &&
			wanted("status", t.Status) && wanted("language", t.Language) && wanted("category", t.Category) {
			listed = append(listed, t.read())
		}
	}
	slices.Reverse(listed) // newest first
	return s.page(c, listed, defaultTemplateFields)
}

func (s *Simulator) readTemplate(c *call) (any, error) {
	read := c.template.read()
	read["health_status"] = health(c.account, object{fieldEntity: "MESSAGE_TEMPLATE", "id": c.template.ID},
		c.template.Status == statusApproved)
	return choose(read, c.r.URL.Query().Get("fields"), defaultTemplateFields), nil
}

// createTemplate takes a template in; the review comes later.
func (s *Simulator) createTemplate(c *call) (any, error) {
	t := &template{Status: "PENDING", Quality: "UNKNOWN", Format: "POSITIONAL", account: c.account, created: c.now}
	t.Name, t.Language, t.Category = c.form.Text("name"), c.form.Text("language"), strings.ToUpper(c.form.Text("category"))
	if format := strings.ToUpper(c.form.Text("parameter_format")); format != "" {
		t.Format = format
	}
	t.Components, _ = c.form["components"].([]any)
	t.TTL = c.form["message_send_ttl_seconds"]
	if err := t.check(); err != nil {
		return nil, err
	}
	w := s.world
	if err := s.mayCreate(t, c.now); err != nil {
		return nil, err
	}
	t.ID = w.id(templateSeries)
	w.addTemplate(t)
	c.account.created = append(c.account.created, c.now)
	s.awaitReview(t)
	return object{"id": t.ID, "status": t.Status, "category": t.Category}, nil
}

func (w *world) addTemplate(t *template) {
	w.templates[t.ID], w.names[t.key()] = t, t
}

func (s *Simulator) mayCreate(t *template, now time.Time) error {
	if s.world.names[t.key()] != nil {
		return wire.Refusal(100, "There is already %s content for this template.", t.Language).With(2388024).
			Said("Content in this language already exists",
				"There is already "+t.Language+" content for this template. You can create a new template and try again.")
	}
	t.account.created = slices.DeleteFunc(t.account.created, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	count := 0
	for _, other := range s.world.templates {
		if other.account == t.account {
			count++
		}
	}
	if count >= maxTemplates || len(t.account.created) >= 100 {
		return wire.Refusal(100, "The limit of message templates is reached.").With(2388019).
			Said("Message template limit reached", "The account has as many message templates as it may have. Delete some, or wait an hour.")
	}
	return nil
}

// awaitReview has a template reviewed after a while: one whose name says reject is
// rejected, one whose name says pending is left alone.
func (s *Simulator) awaitReview(t *template) {
	delay := s.world.settings.ReviewDelayMS
	if delay < 0 || strings.Contains(t.Name, "pending") {
		return
	}
	s.agenda.At(s.Now().Add(time.Duration(delay)*time.Millisecond), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.world.templates[t.ID] != t || t.Status != "PENDING" {
			return
		}
		decided := review{Event: statusApproved}
		if strings.Contains(t.Name, "reject") {
			decided = review{Event: "REJECTED", Reason: "INVALID_FORMAT"}
		}
		s.review(t, decided)
	})
}

func (s *Simulator) editTemplate(c *call) (any, error) {
	t := c.template
	if t.Status != statusApproved && t.Status != "REJECTED" && t.Status != "PAUSED" {
		return nil, wire.Refusal(100, "A template with status %s cannot be edited.", t.Status).With(2593002).
			Said("Message template cannot be edited", "Only templates that are approved, rejected or paused can be edited.")
	}
	changed := *t
	if category := strings.ToUpper(c.form.Text("category")); category != "" && category != t.Category {
		if t.Status == statusApproved {
			return nil, wire.Refusal(100, "The category of an approved template cannot be edited.").With(2388049).
				Said("Category cannot be edited", "The category of an approved message template cannot be changed.")
		}
		changed.Category = category
	}
	if components, given := c.form["components"].([]any); given {
		changed.Components = components
	}
	if format := strings.ToUpper(c.form.Text("parameter_format")); format != "" {
		changed.Format = format
	}
	if err := changed.check(); err != nil {
		return nil, err
	}
	if err := t.mayEdit(c.now); err != nil {
		return nil, err
	}
	changed.edits = append(slices.Clone(t.edits), c.now)
	changed.Status, changed.Rejected = "PENDING", ""
	*t = changed
	s.componentsUpdate(t)
	s.awaitReview(t)
	return success(), nil
}

func (t *template) mayEdit(now time.Time) error {
	if t.Status != statusApproved {
		return nil
	}
	month := 0
	for _, at := range t.edits {
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

// deleteTemplates removes all languages of a name, one template of it, or several ids.
func (s *Simulator) deleteTemplates(c *call) (any, error) {
	name, one := c.form.Text("name"), c.form.Text("hsm_id")
	several := strings.FieldsFunc(c.form.Text("hsm_ids"), func(r rune) bool { return strings.ContainsRune(`[]", `, r) })
	if name == "" && len(several) == 0 {
		return nil, wire.Refusal(100, "The parameter name is required.")
	}
	var gone []*template
	for _, t := range s.world.templates {
		named := name == t.Name && (one == "" || one == t.ID)
		if t.account == c.account && (named || slices.Contains(several, t.ID)) {
			gone = append(gone, t)
		}
	}
	if len(gone) == 0 {
		return nil, wire.Refusal(100, "The message template does not exist.").With(2593002).
			Said("Message template not found", "The message template with this name or ID does not exist.")
	}
	for _, t := range gone {
		if t.Status == "DISABLED" {
			return nil, wire.Refusal(100, "A disabled template cannot be deleted.").With(2388094).
				Said("Message template cannot be deleted", "A disabled message template cannot be deleted.")
		}
	}
	for _, t := range gone {
		delete(s.world.templates, t.ID)
		delete(s.world.names, t.key())
	}
	return success(), nil
}

func (s *Simulator) unpauseTemplate(c *call) (any, error) {
	if c.template.Status != "PAUSED" {
		return object{"success": false, "reason": "The template is not paused."}, nil
	}
	s.review(c.template, review{Event: statusApproved, Title: "UNPAUSE"})
	return success(), nil
}

// integer is an id as template callbacks carry it.
func integer(id string) int64 {
	value, _ := strconv.ParseInt(id, 10, 64) // our own ids
	return value
}
