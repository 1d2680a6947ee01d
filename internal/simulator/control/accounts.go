package control

import (
	"crypto/rand"
	"time"

	"github.com/parley-chat/parley/internal/simulator/dispatcher"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// saveApp creates an app, or changes the one whose id is given. With `verify` its callback
// URL must answer the challenge.
func (s *Server) saveApp(c *request) (any, error) {
	in := struct {
		state.App

		Verify bool `json:"verify"`
	}{App: s.readApp(c.Form.Text("id"))}
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if in.CallbackURL != "" {
		if err := dispatcher.CheckURL(in.CallbackURL); err != nil {
			return nil, wire.Refusal(100, "callback_url %s", err.Error())
		}
	}
	if in.CallbackURL != "" && in.Verify {
		if err := s.VerifyCallbackURL(c.R.Context(), in.CallbackURL, in.VerifyToken); err != nil {
			return nil, err
		}
	}
	s.Lock()
	defer s.Unlock()
	if in.ID == "" {
		in.ID = s.Data.NextID(state.AppSeries)
	}
	for _, secret := range []*string{&in.Secret, &in.VerifyToken} {
		if *secret == "" {
			*secret = rand.Text()
		}
	}
	if s.Data.Apps[in.ID] == nil {
		s.Data.Apps[in.ID] = &state.App{}
	}
	*s.Data.Apps[in.ID] = in.App // queued callbacks refer to the app, and sign with its newest secret
	return in.App, nil
}

// readApp returns the app with an id, or what a new one starts with.
func (s *Server) readApp(id string) state.App {
	s.Lock()
	defer s.Unlock()
	if existing := s.Data.Apps[id]; existing != nil {
		return *existing
	}
	return state.App{Name: "App", Version: "v24.0"}
}

// saveAccount creates or changes a business account. `subscribed` lists apps to subscribe.
func (s *Server) saveAccount(c *request) (any, error) {
	in := struct {
		state.Account

		Subscribe []string `json:"subscribed"`
	}{Account: state.Account{Name: "Business"}}
	existing := s.Data.Accounts[c.Form.Text("id")]
	if existing != nil {
		in.Account = *existing
	}
	if err := c.into(&in); err != nil {
		return nil, err
	}
	for _, id := range in.Subscribe {
		if s.Data.Apps[id] == nil {
			return nil, wire.Refusal(100, "subscribed: there is no app %s", id)
		}
	}
	changed := existing // numbers and templates refer to the account
	if changed == nil {
		changed = &state.Account{}
	}
	*changed = in.Account
	s.Data.AddAccount(changed)
	for _, id := range in.Subscribe {
		changed.Subscribed[id] = state.Override{}
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
