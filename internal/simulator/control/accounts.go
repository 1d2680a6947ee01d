package control

import (
	"crypto/rand"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// saveApp creates an app, or changes the one whose id is given. With `verify` its callback
// URL must answer the challenge.
func (s *Server) saveApp(c *request) (any, error) {
	if address := c.Form.Text("callback_url"); address != "" && c.Form["verify"] == true {
		if err := s.VerifyCallbackURL(c.R.Context(), address, c.Form.Text("verify_token")); err != nil {
			return nil, err
		}
	}
	s.Lock()
	defer s.Unlock()
	changed := &state.App{Name: "App", Version: "v24.0"}
	if existing := s.Data.Apps[c.Form.Text("id")]; existing != nil {
		changed = existing
	}
	if err := c.into(changed); err != nil {
		return nil, err
	}
	if changed.ID == "" {
		changed.ID = s.Data.NextID(state.AppSeries)
	}
	for _, secret := range []*string{&changed.Secret, &changed.VerifyToken} {
		if *secret == "" {
			*secret = rand.Text()
		}
	}
	s.Data.Apps[changed.ID] = changed
	return *changed, nil
}

// saveAccount creates or changes a business account. `subscribed` lists apps to subscribe.
func (s *Server) saveAccount(c *request) (any, error) {
	changed := &state.Account{Name: "Business"}
	if existing := s.Data.Accounts[c.Form.Text("id")]; existing != nil {
		changed = existing
	}
	if err := c.into(changed); err != nil {
		return nil, err
	}
	s.Data.AddAccount(changed)
	subscribed, _ := c.Form["subscribed"].([]any)
	for _, app := range subscribed {
		if id, _ := app.(string); s.Data.Apps[id] != nil {
			changed.Subscribed[id] = state.Override{}
		}
	}
	s.Feed.PublishState()
	return *changed, nil
}

// saveToken issues or revokes a token.
func (s *Server) saveToken(c *request) (any, error) {
	var in struct {
		state.Token

		ExpiresInSeconds float64 `json:"expires_in_seconds"`
		Revoke           bool    `json:"revoke"`
	}
	in.App, in.Scopes = s.Config.AppID, state.Scopes()
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if s.Data.Apps[in.App] == nil {
		return nil, wire.Refusal(100, "there is no app %s", in.App)
	}
	if existing := s.Data.Tokens[in.Value]; existing != nil && in.Revoke {
		existing.Revoked = true
		return *existing, nil
	}
	if in.Value == "" {
		in.Value = "EAAS" + rand.Text() + rand.Text()
	}
	if in.Issued = c.Now; in.ExpiresInSeconds != 0 {
		in.Expires = c.Now.Add(time.Duration(in.ExpiresInSeconds * float64(time.Second)))
	}
	return *s.Data.IssueToken(&in.Token), nil
}
