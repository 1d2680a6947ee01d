package control

import (
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

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

// saveNumber creates or changes a number, and notifies the apps of a higher throughput.
func (s *Server) saveNumber(c *request, in numberChange) (any, error) {
	n := s.Data.Numbers[in.ID]
	created := n == nil
	if created {
		owner, err := s.findAccount(in.AccountID)
		if err != nil {
			return nil, err
		}
		n = &state.Number{ID: in.ID, Account: owner, Display: in.Display, Verified: true, Onboarded: c.Now}
		if err := s.Data.AddNumber(n); err != nil {
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
		n.PIN = *in.PIN
	}
	if upgraded {
		s.NotifyAccount(n.Account, "phone_number_quality_update", object{
			wire.FieldDisplay: n.Digits, "event": "THROUGHPUT_UPGRADE", "current_limit": n.Tier, "max_daily_conversations_per_business": n.Tier,
		})
	}
	s.Feed.PublishState()
	return s.DescribeNumber(n, s.Config.AppID), nil
}
