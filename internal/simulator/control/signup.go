package control

import (
	"crypto/rand"
	"time"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// signupChoice is the body of POST /sim/signup: what a business chose in the dialog.
type signupChoice struct {
	AppID       string `json:"app_id"`
	AccountID   string `json:"waba_id"`         // empty: a new account
	NumberID    string `json:"phone_number_id"` // empty: a new number
	Name        string `json:"business_name"`
	Phone       string `json:"phone_number"`
	OnlyAccount bool   `json:"only_waba"`
	Coexistence bool   `json:"coexistence"`
}

// signUp connects a business as the dialog does, and answers what the dialog posts.
func (s *Server) signUp(c *request, in signupChoice) (any, error) {
	if in.AppID == "" {
		in.AppID = s.Config.AppID
	}
	if s.Data.Apps[in.AppID] == nil {
		return nil, wire.Refusal(100, "there is no app %s", in.AppID)
	}
	owner, n, err := s.connectBusiness(in, c.Now)
	if err != nil {
		return nil, err
	}
	value := rand.Text() + rand.Text()
	if len(s.Data.Codes) >= state.MaxCodes {
		clear(s.Data.Codes)
	}
	s.Data.Codes[value] = &state.Code{App: in.AppID, Account: owner.ID, Expires: c.Now.Add(state.CodeLifetime)}
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
	s.notifyPartnerAdded(in.AppID, owner)
	s.Feed.PublishState()
	return answer, nil
}

// connectBusiness finds or creates the account and the number that a business chose.
func (s *Server) connectBusiness(in signupChoice, now time.Time) (owner *state.Account, n *state.Number, err error) {
	d := s.Data
	if in.NumberID != "" {
		if n = d.Numbers[in.NumberID]; n == nil {
			return nil, nil, wire.Refusal(100, "there is no phone number %s", in.NumberID)
		}
		return n.Account, n, nil
	}
	if owner = d.Accounts[in.AccountID]; owner == nil {
		if in.AccountID != "" {
			return nil, nil, wire.Refusal(100, "there is no business account %s", in.AccountID)
		}
		if in.Name == "" {
			in.Name = "New Business"
		}
		owner = d.AddAccount(&state.Account{Name: in.Name, Business: d.NextID(state.BusinessSeries)})
	}
	if in.OnlyAccount {
		return owner, nil, nil
	}
	n = &state.Number{
		Account: owner, Display: in.Phone, Name: owner.Name, Status: "PENDING", Verified: true,
		Coexistence: in.Coexistence, Onboarded: now,
	}
	if in.Coexistence {
		n.Status = wire.StatusConnected
	}
	return owner, n, d.AddNumber(n)
}

// notifyPartnerAdded notifies the app of its new customer, to which it has not subscribed yet.
func (s *Server) notifyPartnerAdded(appID string, owner *state.Account) {
	subscribed := &state.Account{ID: owner.ID, Business: owner.Business, Subscribed: map[string]state.Override{appID: {}}}
	s.Notify(state.Notification{
		Account: subscribed, Field: "account_update", EntryID: s.Data.Accounts[state.DefaultAccountID].Business,
		Value: object{"event": "PARTNER_ADDED", "waba_info": object{"waba_id": owner.ID, "owner_business_id": owner.Business}},
	})
}
