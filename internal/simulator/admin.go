package simulator

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// simApp creates an app, or changes the one whose id is given. With `verify` its
// callback address must answer the challenge first.
func (s *Simulator) simApp(c *controlled) (any, error) {
	if address := c.form.Text("callback_url"); address != "" && c.form["verify"] == true {
		if err := s.verified(c.r.Context(), address, c.form.Text("verify_token")); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := &app{Name: "App", Version: "v24.0"}
	if known := s.world.apps[c.form.Text("id")]; known != nil {
		changed = known
	}
	if err := c.into(changed); err != nil {
		return nil, err
	}
	if changed.ID == "" {
		changed.ID = s.world.id(appSeries)
	}
	for _, secret := range []*string{&changed.Secret, &changed.VerifyToken} {
		if *secret == "" {
			*secret = rand.Text()
		}
	}
	s.world.apps[changed.ID] = changed
	return *changed, nil
}

// simAccount creates or changes a business account; `subscribed` lists the apps that hear of it.
func (s *Simulator) simAccount(c *controlled) (any, error) {
	changed := &account{Name: "Business"}
	if known := s.world.accounts[c.form.Text("id")]; known != nil {
		changed = known
	}
	if err := c.into(changed); err != nil {
		return nil, err
	}
	s.world.addAccount(changed)
	subscribed, _ := c.form["subscribed"].([]any)
	for _, one := range subscribed {
		if id, _ := one.(string); s.world.apps[id] != nil {
			changed.subscribed[id] = override{}
		}
	}
	s.live.publish("state", struct{}{})
	return *changed, nil
}

// numberChange is the body of POST /sim/numbers.
type numberChange struct {
	ID          string  `json:"id"`
	AccountID   string  `json:"waba_id"`
	Display     string  `json:"display_phone_number"`
	Name        string  `json:"verified_name"`
	Status      string  `json:"status"`
	Quality     string  `json:"quality_rating"`
	Throughput  string  `json:"throughput"`
	NameStatus  string  `json:"name_status"`
	Tier        string  `json:"messaging_limit"`
	Verified    *bool   `json:"verified"`
	Coexistence *bool   `json:"coexistence"`
	PIN         *string `json:"pin"`
}

// simNumber creates or changes a number. A changed quality or throughput is told as the
// network tells it.
func (s *Simulator) simNumber(c *controlled, in numberChange) (any, error) {
	n := s.world.numbers[in.ID]
	created := n == nil
	if created {
		owner, err := s.accountOf(in.AccountID)
		if err != nil {
			return nil, err
		}
		n = &number{ID: in.ID, Account: owner, Display: in.Display, Verified: true, onboarded: c.now}
		if err := s.world.addNumber(n); err != nil {
			return nil, err
		}
	}
	upgraded := in.Throughput == "HIGH" && n.Throughput != "HIGH" && !created
	for field, value := range map[*string]string{
		&n.Name: in.Name, &n.Status: in.Status, &n.Quality: in.Quality, &n.Throughput: in.Throughput, &n.NameStatus: in.NameStatus,
		&n.Tier: in.Tier,
	} {
		if value != "" {
			*field = value
		}
	}
	if in.Verified != nil {
		n.Verified = *in.Verified
	}
	if in.Coexistence != nil {
		n.Coexistence = *in.Coexistence
	}
	if in.PIN != nil {
		n.pin = *in.PIN
	}
	if upgraded {
		s.tellAccount(n.Account, "phone_number_quality_update", object{
			fieldDisplay: n.Digits, "event": "THROUGHPUT_UPGRADE", "current_limit": n.Tier, "max_daily_conversations_per_business": n.Tier,
		})
	}
	s.live.publish("state", struct{}{})
	return s.numberObject(n, s.config.AppID), nil
}

// simToken issues a token, for an app and some accounts; none means all.
func (s *Simulator) simToken(c *controlled) (any, error) {
	var in struct {
		token

		ExpiresInSeconds float64 `json:"expires_in_seconds"`
		Revoke           bool    `json:"revoke"`
	}
	in.App, in.Scopes = s.config.AppID, scopes()
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if s.world.apps[in.App] == nil {
		return nil, wire.Refusal(100, "there is no app %s", in.App)
	}
	if known := s.world.tokens[in.Value]; known != nil && in.Revoke {
		known.Revoked = true
		return *known, nil
	}
	if in.Value == "" {
		in.Value = "EAAS" + rand.Text() + rand.Text()
	}
	if in.Issued = c.now; in.ExpiresInSeconds != 0 {
		in.Expires = c.now.Add(time.Duration(in.ExpiresInSeconds * float64(time.Second)))
	}
	return *s.world.issue(&in.token), nil
}

// simState is what the phone page chooses from.
func (s *Simulator) simState(*controlled) (any, error) {
	w := s.world
	numbers, accounts, templates := []object{}, []object{}, []object{}
	for _, id := range slices.Sorted(maps.Keys(w.accounts)) {
		owner := w.accounts[id]
		accounts = append(accounts, object{"id": id, "name": owner.Name, "business_id": owner.Business})
		for _, n := range w.numbersOf(owner) {
			described := s.numberObject(n, s.config.AppID)
			described["waba_id"] = id
			numbers = append(numbers, described)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.templates)) {
		t := w.templates[id]
		templates = append(templates, object{"id": id, "name": t.Name, "language": t.Language, "status": t.Status, "waba_id": t.account.ID})
	}
	return object{
		"numbers": numbers, "accounts": accounts, "templates": templates, "users": s.conversants(), "settings": w.settings,
		"app_id": s.config.AppID, "now": s.Now(),
	}, nil
}

// maxConversants is how many people the page offers.
const maxConversants = 200

// conversants are the people that are known or took part in what is shown, with the
// numbers they spoke with.
func (s *Simulator) conversants() []object {
	seen := map[string]bool{}
	all := []object{}
	add := func(who *person) {
		if seen[who.Phone] || len(all) >= maxConversants {
			return
		}
		seen[who.Phone] = true
		all = append(all, object{"phone": who.Phone, "name": who.Name, "username": who.Username})
	}
	for b := range s.world.shown.newest {
		add(s.world.people.byPhone(b.Phone))
		if len(all) >= maxConversants/2 {
			break
		}
	}
	for _, digits := range slices.Sorted(maps.Keys(s.world.people.known)) {
		add(s.world.people.known[digits])
	}
	for _, one := range all {
		phone, _ := one["phone"].(string)
		last := object{}
		for id := range s.world.numbers {
			if said := s.world.threads[pair{id, phone}]; len(said) > 0 {
				last[id] = json.RawMessage(encode(said[len(said)-1]))
			}
		}
		one["last"] = last
	}
	return all
}
