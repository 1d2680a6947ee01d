package simulator

import (
	"regexp"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

var namePattern = regexp.MustCompile(`^[a-z0-9_]{1,512}$`)

// check refuses what the network refuses at creation, and learns the shape.
func (t *template) check() error {
	switch {
	case !namePattern.MatchString(t.Name):
		return content.Malformed(2388023, "Invalid name",
			"Message template names can only have lowercase letters, digits and underscores, up to 512.")
	case t.Language == "":
		return wire.Refusal(100, "The parameter language is required.")
	case t.Category != categoryMarketing && t.Category != "UTILITY" && t.Category != categoryAuthentication:
		return wire.Refusal(100, "Param category must be one of {AUTHENTICATION, MARKETING, UTILITY}.")
	case t.Format != "POSITIONAL" && t.Format != "NAMED":
		return wire.Refusal(100, "Param parameter_format must be one of {POSITIONAL, NAMED}.")
	case len(t.Components) == 0:
		return wire.Refusal(100, "The parameter components is required.")
	}
	learned, err := content.Learn(content.Template{Category: t.Category, Format: t.Format, Components: t.Components})
	if err != nil {
		return err
	}
	t.shape = learned
	return nil
}

func templateName(written any) string {
	of, _ := written.(object)
	name, _ := of["name"].(string)
	return name
}

// sendable finds the template of a message and refuses parameters that do not fit it.
func (s *Simulator) sendable(owner *account, m *message) (*template, error) {
	of, _ := m.content.(object)
	language, _ := of["language"].(object)
	code, _ := language["code"].(string)
	name := templateName(of)
	t := s.world.names[templateName3{owner.ID, name, code}]
	switch {
	case t == nil:
		return nil, wire.Refusal(132001, "template name (%s) does not exist in %s", name, code).With(2494015)
	case t.Status == "PAUSED":
		return nil, wire.Refusal(132015, "template (%s) is paused due to low quality", name)
	case t.Status == "DISABLED":
		return nil, wire.Refusal(132016, "template (%s) is disabled", name)
	case t.Status != statusApproved:
		return nil, wire.Refusal(132001, "template name (%s) is not approved in %s", name, code).With(2494015)
	case t.Category == categoryAuthentication && m.to == "":
		return nil, wire.Refusal(131062, "Authentication templates cannot be sent to a business-scoped user ID.")
	case len(owner.Restrictions) > 0 && restricts(owner.Restrictions, t.Category):
		return nil, wire.Refusal(368, "The account is restricted from sending this kind of template.")
	}
	components, _ := of["components"].([]any)
	return t, t.shape.Fit(components)
}

func restricts(restrictions []string, category string) bool {
	for _, one := range restrictions {
		if one == "RESTRICTED_BIZ_INITIATED_MESSAGING" || one == "RESTRICTED_UTILITY_TEMPLATES" && category == "UTILITY" {
			return true
		}
	}
	return false
}

// rendered is the content of a message as the phone shows it: a template with its
// variables filled in.
func (s *Simulator) rendered(m *message) any {
	if m.template == nil {
		return m.content
	}
	of, _ := m.content.(object)
	components, _ := of["components"].([]any)
	shown := m.template.shape.Render(components)
	shown["name"] = m.template.Name
	return shown
}
