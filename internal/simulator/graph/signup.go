package graph

import (
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/page"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// exchange issues a token for a code.
func (s *Server) exchange(c *call) (any, error) {
	client := s.Data.Apps[c.Form.Text("client_id")]
	if client == nil || client.Secret != c.Form.Text("client_secret") {
		return nil, wire.Refusal(1, "Error validating client secret.")
	}
	if c.Form.Text("grant_type") == "client_credentials" {
		return object{"access_token": client.ID + "|" + client.Secret, "token_type": "bearer"}, nil
	}
	given := s.Data.Codes[c.Form.Text("code")]
	switch {
	case given == nil || given.App != client.ID:
		return nil, wire.Refusal(100, "Invalid verification code format.").With(36008)
	case given.Used:
		return nil, wire.Refusal(100, "This authorization code has been used.").With(36009)
	case !c.Now.Before(given.Expires):
		return nil, wire.Refusal(100, "This authorization code has expired.").With(36007)
	}
	given.Used = true
	issued := s.Data.IssueToken(&state.Token{
		Value: "EAAS" + rand.Text() + rand.Text(), App: client.ID, Accounts: []string{given.Account}, Scopes: state.Scopes(), Issued: c.Now,
	})
	return object{"access_token": issued.Value, "token_type": "bearer"}, nil
}

// debugToken describes a token of the calling app.
func (s *Server) debugToken(c *call) (any, error) {
	if err := s.authenticate(c); err != nil {
		return nil, err
	}
	value := c.R.URL.Query().Get("input_token")
	if value == "" {
		return nil, wire.Refusal(100, "The parameter input_token is required.")
	}
	s.Lock()
	defer s.Unlock()
	found, err := s.findToken(value, c.Now)
	if issued := s.Data.Tokens[value]; issued != nil {
		found = issued
	}
	if found == nil || found.App != c.token.App {
		return object{"data": object{
			"is_valid": false, "scopes": []string{}, "error": object{"code": 190, "message": "Invalid OAuth access token."},
		}}, nil
	}
	return object{"data": s.describeToken(found, err == nil)}, nil
}

func (s *Server) describeToken(t *state.Token, valid bool) object {
	targets := slices.Clone(t.Accounts)
	if len(targets) == 0 {
		targets = slices.Sorted(maps.Keys(s.Data.Accounts))
	}
	slices.Reverse(targets) // newest first
	granular := []object{}
	for _, scope := range t.Scopes {
		granted := object{"scope": scope}
		if strings.HasPrefix(scope, "whatsapp") {
			granted["target_ids"] = targets
		}
		granular = append(granular, granted)
	}
	expires := int64(0)
	if !t.Expires.IsZero() {
		expires = t.Expires.Unix()
	}
	return object{
		"app_id": t.App, "type": "SYSTEM_USER", "application": s.Data.Apps[t.App].Name, "is_valid": valid, "issued_at": t.Issued.Unix(),
		"expires_at": expires, "data_access_expires_at": 0, "scopes": t.Scopes, "granular_scopes": granular, "user_id": "900000000000001",
	}
}

// dialog serves the page on which a business connects its number.
func (s *Server) dialog(c *call) (any, error) {
	if c.R.Method != http.MethodGet {
		return nil, wire.Refusal(100, "Unsupported request.")
	}
	s.Lock()
	known := s.Data.Apps[c.R.URL.Query().Get("client_id")] != nil
	s.Unlock()
	if !known {
		return nil, wire.Refusal(101, "Error validating application. Invalid application ID.")
	}
	return rawAnswer(func() { page.ServeDialog(c.W, c.R) }), nil
}
