package control

import (
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// reviewTemplate sets the status of a template.
func (s *Server) reviewTemplate(c *request, decision state.Review) (any, error) {
	if decision.Event == "" {
		decision.Event = wire.StatusApproved
	}
	return s.withTemplate(c, func(t *state.Template) { s.ReviewTemplate(t, decision) })
}

// qualityChange is the body of POST /sim/templates/{id}/quality.
type qualityChange struct {
	Quality string `json:"new_quality_score"` // empty: GREEN
}

func (s *Server) changeTemplateQuality(c *request, in qualityChange) (any, error) {
	return s.withTemplate(c, func(t *state.Template) {
		before := t.Quality
		if t.Quality = in.Quality; t.Quality == "" {
			t.Quality = "GREEN"
		}
		value := t.CallbackFields()
		value["previous_quality_score"], value["new_quality_score"] = before, t.Quality
		s.NotifyAccount(t.Account, "message_template_quality_update", value)
	})
}

// categoryChange is the body of POST /sim/templates/{id}/category.
type categoryChange struct {
	New     string `json:"new_category"`     // from now on; empty: MARKETING
	Correct string `json:"correct_category"` // in 24 hours; used instead of New
}

// changeTemplateCategory changes the category of a template, or announces a change in 24 hours.
func (s *Server) changeTemplateCategory(c *request, in categoryChange) (any, error) {
	return s.withTemplate(c, func(t *state.Template) {
		value := t.CallbackFields()
		if in.Correct != "" {
			value["new_category"], value["correct_category"] = t.Category, in.Correct
			value["category_update_timestamp"] = s.Now().Add(24 * time.Hour).Unix()
		} else {
			t.Previous = t.Category
			if t.Category = in.New; t.Category == "" {
				t.Category = wire.CategoryMarketing
			}
			value["previous_category"], value["new_category"] = t.Previous, t.Category
		}
		s.NotifyAccount(t.Account, "template_category_update", value)
	})
}

// withTemplate changes the template in the path and answers it.
func (s *Server) withTemplate(c *request, change func(t *state.Template)) (any, error) {
	t := s.Data.Templates[c.id]
	if t == nil {
		return nil, wire.Refusal(100, "there is no template %s", c.id)
	}
	change(t)
	return t.Describe(), nil
}
