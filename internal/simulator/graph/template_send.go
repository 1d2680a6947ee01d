package graph

import (
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

func templateName(content any) string {
	of, _ := content.(object)
	name, _ := of["name"].(string)
	return name
}

// findTemplate returns the template of a message, and refuses parameters that do not fit it.
func (s *Server) findTemplate(owner *state.Account, m *message) (*state.Template, error) {
	of, _ := m.content.(object)
	language, _ := of["language"].(object)
	code, _ := language["code"].(string)
	name := templateName(of)
	t := s.Data.TemplatesByName[state.TemplateKey{Account: owner.ID, Name: name, Language: code}]
	switch {
	case t == nil:
		return nil, wire.Refusal(132001, "template name (%s) does not exist in %s", name, code).With(2494015)
	case t.Status == "PAUSED":
		return nil, wire.Refusal(132015, "template (%s) is paused due to low quality", name)
	case t.Status == "DISABLED":
		return nil, wire.Refusal(132016, "template (%s) is disabled", name)
	case t.Status != wire.StatusApproved:
		return nil, wire.Refusal(132001, "template name (%s) is not approved in %s", name, code).With(2494015)
	case t.Category == wire.CategoryAuthentication && m.to == "":
		return nil, wire.Refusal(131062, "Authentication templates cannot be sent to a business-scoped user ID.")
	case len(owner.Restrictions) > 0 && restricts(owner.Restrictions, t.Category):
		return nil, wire.Refusal(368, "The account is restricted from sending this kind of template.")
	}
	components, _ := of["components"].([]any)
	return t, t.Shape.Fit(components)
}

// restricts tells whether restrictions of an account forbid a category.
func restricts(restrictions []string, category string) bool {
	for _, restriction := range restrictions {
		if restriction == "RESTRICTED_BIZ_INITIATED_MESSAGING" || restriction == "RESTRICTED_UTILITY_TEMPLATES" && category == "UTILITY" {
			return true
		}
	}
	return false
}

// chatContent returns the content of a message for the phone page; the variables of a template
// are replaced.
func chatContent(m *message) any {
	if m.template == nil {
		return m.content
	}
	of, _ := m.content.(object)
	components, _ := of["components"].([]any)
	rendered := m.template.Shape.Render(components)
	rendered["name"] = m.template.Name
	return rendered
}
