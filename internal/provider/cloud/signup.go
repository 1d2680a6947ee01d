package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// The network's permissions that sending and connecting need.
const (
	scopeSend   = "whatsapp_business_messaging"
	scopeManage = "whatsapp_business_management"
)

// dialogHost is where the network shows its pages.
const dialogHost = "https://www.facebook.com"

// SignupURL is the dialog with its way back.
func (c *Client) SignupURL(dialog provider.SignupDialog) string {
	host := c.config.BaseURL
	if host == DefaultBaseURL {
		host = dialogHost
	}
	extras := map[string]any{"setup": map[string]any{}, "sessionInfoVersion": "3"}
	if dialog.Coexistence {
		extras["featureType"] = "whatsapp_business_app_onboarding"
	}
	query := url.Values{
		"client_id": {c.config.AppID}, "redirect_uri": {dialog.RedirectURL}, "state": {dialog.State},
		"response_type": {"code"}, "override_default_response_type": {"true"}, "extras": {string(encode(extras))},
	}
	if c.config.SignupConfigID != "" {
		query.Set("config_id", c.config.SignupConfigID)
	}
	return host + "/" + c.config.Version + "/dialog/oauth?" + query.Encode()
}

// needsApp refuses a call that needs an app when none is configured.
func (c *Client) needsApp(r request) error {
	if c.config.AppID != "" && len(c.config.AppSecrets) > 0 {
		return nil
	}
	return &provider.Error{
		Operation: r.operation, Class: provider.AccountFault, Delivery: provider.NotSent, Code: fault.UpstreamError,
		Details: "the app is not configured: set PARLEY_PROVIDER_APP_ID and PARLEY_PROVIDER_APP_SECRET",
	}
}

// withEachSecret tries the newer secret first: during a rotation only one of them is valid.
func (c *Client) withEachSecret(r request, try func(secret string) error) error {
	if err := c.needsApp(r); err != nil {
		return err
	}
	var err error
	for _, secret := range c.config.AppSecrets {
		err = try(secret.Reveal())
		failed, refused := provider.As(err)
		if !refused || failed.ProviderCode == nil || !slices.Contains([]int{1, 101, 190}, *failed.ProviderCode) {
			return err
		}
	}
	return err
}

type granted struct {
	Token   text  `json:"access_token"`
	Expires whole `json:"expires_in"`
}

func (g *granted) complete() bool { return g.Token != "" }

// ExchangeCode gives a token for a code. The network wants the app secret in the query.
func (c *Client) ExchangeCode(ctx context.Context, code provider.SignupCode) (provider.Grant, error) {
	r := request{operation: "exchange_code", method: http.MethodGet, path: "oauth/access_token", secrets: []string{code.Code}}
	var given granted
	err := c.withEachSecret(r, func(secret string) error {
		r.query = url.Values{"client_id": {c.config.AppID}, "client_secret": {secret}, "code": {code.Code}}
		if code.RedirectURL != "" {
			r.query.Set("redirect_uri", code.RedirectURL)
		}
		return c.call(ctx, r, &given)
	})
	if err != nil {
		return provider.Grant{}, err
	}
	grant := provider.Grant{Token: provider.NewToken(string(given.Token))}
	if given.Expires.value > 0 {
		grant.ExpiresAt = c.config.Clock.Now().Add(time.Duration(given.Expires.value) * time.Second)
	}
	return grant, nil
}

type inspected struct {
	Data *struct {
		AppID    text   `json:"app_id"`
		Valid    flag   `json:"is_valid"`
		Expires  whole  `json:"expires_at"`
		Scopes   []text `json:"scopes"`
		Granular []struct {
			Scope   text   `json:"scope"`
			Targets []text `json:"target_ids"`
		} `json:"granular_scopes"`
	} `json:"data"`
}

func (i *inspected) complete() bool { return i.Data != nil }

// InspectToken asks with the app's own token. The network wants the other in the query.
func (c *Client) InspectToken(ctx context.Context, token provider.Token) (provider.TokenState, error) {
	r := request{
		operation: "inspect_token", method: http.MethodGet, path: "debug_token", query: url.Values{"input_token": {token.Reveal()}},
		secrets: []string{token.Reveal()},
	}
	var found inspected
	err := c.withEachSecret(r, func(secret string) error {
		r.token = provider.NewToken(c.config.AppID + "|" + secret)
		return c.call(ctx, r, &found)
	})
	if err != nil {
		return provider.TokenState{}, err
	}
	given := found.Data
	state := provider.TokenState{Valid: bool(given.Valid) && string(given.AppID) == c.config.AppID, ExpiresAt: given.Expires.at()}
	for _, scope := range given.Scopes {
		state.Scopes = append(state.Scopes, string(scope))
	}
	state.CanSend = slices.Contains(state.Scopes, scopeSend)
	state.CanManage = slices.Contains(state.Scopes, scopeManage)
	for _, granular := range given.Granular {
		if granular.Scope == scopeManage {
			for _, target := range granular.Targets {
				state.BusinessAccounts = append(state.BusinessAccounts, string(target))
			}
		}
	}
	return state, nil
}

// CheckApp asks whether the network knows our app by each of its secrets.
func (c *Client) CheckApp(ctx context.Context) error {
	r := request{operation: "check_app", method: http.MethodGet, path: "debug_token"}
	if err := c.needsApp(r); err != nil {
		return err
	}
	for _, secret := range c.config.AppSecrets {
		r.token = provider.NewToken(c.config.AppID + "|" + secret.Reveal())
		r.query = url.Values{"input_token": {r.token.Reveal()}}
		var found inspected
		if err := c.call(ctx, r, &found); err != nil {
			return err
		}
		if string(found.Data.AppID) != c.config.AppID {
			return c.impossible(r, "the provider does not know the app")
		}
	}
	return nil
}

// Subscribe lets the token's app hear of an account.
func (c *Client) Subscribe(ctx context.Context, to provider.BusinessAccount) error {
	return c.subscription(ctx, "subscribe", http.MethodPost, to, new(done))
}

// Unsubscribe ends that.
func (c *Client) Unsubscribe(ctx context.Context, from provider.BusinessAccount) error {
	return c.subscription(ctx, "unsubscribe", http.MethodDelete, from, new(done))
}

// Subscribed looks for our app among those that hear of an account.
func (c *Client) Subscribed(ctx context.Context, to provider.BusinessAccount) (bool, error) {
	var listed page
	if err := c.subscription(ctx, "subscribed", http.MethodGet, to, &listed); err != nil {
		return false, err
	}
	return slices.ContainsFunc(*listed.Data, func(raw json.RawMessage) bool {
		app := read[struct {
			Data named `json:"whatsapp_business_api_data"`
		}](raw)
		return string(app.Data.ID) == c.config.AppID
	}), nil
}

func (c *Client) subscription(ctx context.Context, operation, method string, account provider.BusinessAccount, into completable) error {
	if err := c.node(operation, account.ID, decimal); err != nil {
		return err
	}
	return c.call(ctx, request{operation: operation, method: method, path: account.ID + "/subscribed_apps", token: account.Token}, into)
}
