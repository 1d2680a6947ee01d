package simulator

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/page"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// code is what the signup dialog hands out for a token.
type code struct {
	app     string
	account string
	expires time.Time
	used    bool
}

const (
	codeLife = 30 * time.Second
	maxCodes = 1_000
)

// scopes are what a business grants in the dialog.
func scopes() []string {
	return []string{"whatsapp_business_management", "whatsapp_business_messaging", "business_management"}
}

// exchange gives a business's token for a code.
func (s *Simulator) exchange(c *call) (any, error) {
	client := s.world.apps[c.form.Text("client_id")]
	if client == nil || client.Secret != c.form.Text("client_secret") {
		return nil, wire.Refusal(1, "Error validating client secret.")
	}
	if c.form.Text("grant_type") == "client_credentials" {
		return object{"access_token": client.ID + "|" + client.Secret, "token_type": "bearer"}, nil
	}
	given := s.world.codes[c.form.Text("code")]
	switch {
	case given == nil || given.app != client.ID:
		return nil, wire.Refusal(100, "Invalid verification code format.").With(36008)
	case given.used:
		return nil, wire.Refusal(100, "This authorization code has been used.").With(36009)
	case !c.now.Before(given.expires):
		return nil, wire.Refusal(100, "This authorization code has expired.").With(36007)
	}
	given.used = true
	issued := s.world.issue(&token{
		Value: "EAAS" + rand.Text() + rand.Text(), App: client.ID, Accounts: []string{given.account}, Scopes: scopes(), Issued: c.now,
	})
	return object{"access_token": issued.Value, "token_type": "bearer"}, nil
}

// issue remembers a token; a full book forgets the oldest but the fixture's.
func (w *world) issue(t *token) *token {
	if len(w.tokens) >= maxTokens {
		oldest := t
		for _, other := range w.tokens {
			if len(other.Accounts) > 0 && other.Issued.Before(oldest.Issued) {
				oldest = other
			}
		}
		delete(w.tokens, oldest.Value)
	}
	w.tokens[t.Value] = t
	return t
}

// debugToken tells an app what a token of it is good for.
func (s *Simulator) debugToken(c *call) (any, error) {
	if err := s.authenticate(c); err != nil {
		return nil, err
	}
	asked := c.r.URL.Query().Get("input_token")
	if asked == "" {
		return nil, wire.Refusal(100, "The parameter input_token is required.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.tokenOf(asked, c.now)
	if known := s.world.tokens[asked]; known != nil {
		found = known
	}
	if found == nil || found.App != c.token.App {
		return object{"data": object{
			"is_valid": false, "scopes": []string{}, "error": object{"code": 190, "message": "Invalid OAuth access token."},
		}}, nil
	}
	return object{"data": s.described(found, err == nil)}, nil
}

func (s *Simulator) described(t *token, valid bool) object {
	targets := slices.Clone(t.Accounts)
	slices.Reverse(targets) // newest first
	if len(targets) == 0 {
		for id := range s.world.accounts {
			targets = append(targets, id)
		}
		slices.Sort(targets)
		slices.Reverse(targets)
	}
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
		"app_id": t.App, "type": "SYSTEM_USER", "application": s.world.apps[t.App].Name, "is_valid": valid, "issued_at": t.Issued.Unix(),
		"expires_at": expires, "data_access_expires_at": 0, "scopes": t.Scopes, "granular_scopes": granular, "user_id": "900000000000001",
	}
}

// dialog is the page on which a business connects itself.
func (s *Simulator) dialog(c *call) (any, error) {
	if c.r.Method != http.MethodGet {
		return nil, wire.Refusal(100, "Unsupported request.")
	}
	s.mu.Lock()
	known := s.world.apps[c.r.URL.Query().Get("client_id")] != nil
	s.mu.Unlock()
	if !known {
		return nil, wire.Refusal(101, "Error validating application. Invalid application ID.")
	}
	return served(func() { page.ServeDialog(c.w, c.r) }), nil
}

// signup is what a business decides in the dialog.
type signup struct {
	AppID       string `json:"app_id"`
	AccountID   string `json:"waba_id"`         // one that exists; empty: a new one
	NumberID    string `json:"phone_number_id"` // likewise
	Name        string `json:"business_name"`
	Phone       string `json:"phone_number"`
	OnlyAccount bool   `json:"only_waba"`
	Coexistence bool   `json:"coexistence"`
}

// simSignup does what the dialog does, and answers what it posts: the code, and the ids.
func (s *Simulator) simSignup(c *controlled, in signup) (any, error) {
	if in.AppID == "" {
		in.AppID = s.config.AppID
	}
	if s.world.apps[in.AppID] == nil {
		return nil, wire.Refusal(100, "there is no app %s", in.AppID)
	}
	owner, n, err := s.join(in, c.now)
	if err != nil {
		return nil, err
	}
	value := rand.Text() + rand.Text()
	if len(s.world.codes) >= maxCodes {
		clear(s.world.codes)
	}
	s.world.codes[value] = &code{app: in.AppID, account: owner.ID, expires: c.now.Add(codeLife)}
	data := object{"waba_id": owner.ID, "business_id": owner.Business}
	answer := object{"code": value, "event": "FINISH", "data": data}
	switch {
	case in.OnlyAccount:
		answer["event"], answer["data"] = "FINISH_ONLY_WABA", object{"waba_id": owner.ID}
	case in.Coexistence:
		answer["event"], answer["data"] = "FINISH_WHATSAPP_BUSINESS_APP_ONBOARDING", object{"waba_id": owner.ID}
	default:
		data["phone_number_id"] = n.ID
	}
	s.partnerAdded(in.AppID, owner)
	s.live.publish("state", struct{}{})
	return answer, nil
}

// join finds or makes the account and the number that a business chose.
func (s *Simulator) join(in signup, now time.Time) (owner *account, n *number, err error) {
	w := s.world
	if in.NumberID != "" {
		if n = w.numbers[in.NumberID]; n == nil {
			return nil, nil, wire.Refusal(100, "there is no phone number %s", in.NumberID)
		}
		return n.Account, n, nil
	}
	if owner = w.accounts[in.AccountID]; owner == nil {
		if in.AccountID != "" {
			return nil, nil, wire.Refusal(100, "there is no business account %s", in.AccountID)
		}
		if in.Name == "" {
			in.Name = "New Business"
		}
		owner = w.addAccount(&account{Name: in.Name, Business: w.id(businessSeries)})
	}
	if in.OnlyAccount {
		return owner, nil, nil
	}
	n = &number{
		Account: owner, Display: in.Phone, Name: owner.Name, Status: "PENDING", Verified: true,
		Coexistence: in.Coexistence, onboarded: now,
	}
	if in.Coexistence {
		n.Status = statusConnected
	}
	return owner, n, w.addNumber(n)
}

// partnerAdded tells the app about its new customer, although it has not subscribed yet.
func (s *Simulator) partnerAdded(appID string, owner *account) {
	ours := &account{ID: owner.ID, Business: owner.Business, subscribed: map[string]override{appID: {}}}
	s.tell(event{
		account: ours, field: "account_update", at: s.Now(), entry: s.world.accounts[DefaultAccountID].Business,
		value: object{"event": "PARTNER_ADDED", "waba_info": object{"waba_id": owner.ID, "owner_business_id": owner.Business}},
	})
}
