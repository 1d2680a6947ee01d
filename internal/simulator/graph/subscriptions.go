package graph

import (
	"maps"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// subscribe lets the token's app hear of an account, elsewhere if it says so.
func (s *Server) subscribe(c *call) (any, error) {
	elsewhere := state.Override{URL: c.Form.Text("override_callback_uri"), VerifyToken: c.Form.Text("verify_token")}
	if elsewhere.URL != "" {
		if err := s.VerifyCallbackURL(c.R.Context(), elsewhere.URL, elsewhere.VerifyToken); err != nil {
			return nil, err
		}
	}
	s.Lock()
	defer s.Unlock()
	c.account.Subscribed[c.token.App] = elsewhere
	return wire.Success(), nil
}

func (s *Server) unsubscribe(c *call) (any, error) {
	if _, subscribed := c.account.Subscribed[c.token.App]; !subscribed {
		return nil, wire.Refusal(100, "The app is not subscribed to this account.")
	}
	delete(c.account.Subscribed, c.token.App)
	return wire.Success(), nil
}

func (s *Server) listSubscribed(c *call) (any, error) {
	data := []object{}
	for _, id := range slices.Sorted(maps.Keys(c.account.Subscribed)) {
		line := object{"whatsapp_business_api_data": object{
			"id": id, "name": s.Data.Apps[id].Name, "link": "https://www.facebook.com/games/?app_id=" + id,
		}}
		if o := c.account.Subscribed[id]; o.URL != "" {
			line["override_callback_uri"] = o.URL
		}
		data = append(data, line)
	}
	return object{"data": data}, nil
}

// readSubscription shows where an app's callbacks go.
func (s *Server) readSubscription(c *call) (any, error) {
	if c.app.CallbackURL == "" {
		return object{"data": []object{}}, nil
	}
	fields := []object{}
	for _, name := range c.app.Fields {
		fields = append(fields, object{"name": name, "version": c.app.Version})
	}
	return object{"data": []object{{
		"object": "whatsapp_business_account", "callback_url": c.app.CallbackURL, "active": true, "fields": fields,
	}}}, nil
}

// changeSubscription moves an app's callbacks, after the new address proved itself.
func (s *Server) changeSubscription(c *call) (any, error) {
	address, verifyToken := c.Form.Text("callback_url"), c.Form.Text("verify_token")
	if c.Form.Text("object") != "whatsapp_business_account" || address == "" {
		return nil, wire.Refusal(100, "The parameters object and callback_url are required.")
	}
	if err := s.VerifyCallbackURL(c.R.Context(), address, verifyToken); err != nil {
		return nil, err
	}
	s.Lock()
	defer s.Unlock()
	c.app.CallbackURL, c.app.VerifyToken = address, verifyToken
	if fields := c.Form.Text("fields"); fields != "" {
		c.app.Fields = strings.Split(fields, ",")
	}
	return wire.Success(), nil
}
