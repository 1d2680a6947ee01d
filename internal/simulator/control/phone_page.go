package control

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// readState lists what the phone page offers.
func (s *Server) readState(*request) (any, error) {
	d := s.Data
	numbers, accounts, templates := []object{}, []object{}, []object{}
	for _, id := range slices.Sorted(maps.Keys(d.Accounts)) {
		owner := d.Accounts[id]
		accounts = append(accounts, object{"id": id, "name": owner.Name, "business_id": owner.Business})
		for _, n := range d.NumbersOf(owner) {
			described := s.DescribeNumber(n, s.Config.AppID)
			described["waba_id"] = id
			numbers = append(numbers, described)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.Templates)) {
		t := d.Templates[id]
		templates = append(templates, object{"id": id, "name": t.Name, "language": t.Language, "status": t.Status, "waba_id": t.Account.ID})
	}
	return object{
		"numbers": numbers, "accounts": accounts, "templates": templates, "users": s.listUsers(), "settings": d.Settings,
		"app_id": s.Config.AppID, "now": s.Now(),
	}, nil
}

// maxListedUsers is how many users the page offers.
const maxListedUsers = 200

// listUsers returns the users of the latest messages and the stored users, with their last
// message per number.
func (s *Server) listUsers() []object {
	seen := map[string]bool{}
	all := []object{}
	add := func(user *state.User) {
		if seen[user.Phone] || len(all) >= maxListedUsers {
			return
		}
		seen[user.Phone] = true
		all = append(all, object{"phone": user.Phone, "name": user.Name, "username": user.Username})
	}
	for m := range s.Data.Recent.Newest {
		add(s.Data.Users.ByPhone(m.Phone))
		if len(all) >= maxListedUsers/2 {
			break
		}
	}
	for _, digits := range slices.Sorted(maps.Keys(s.Data.Users.Saved)) {
		add(s.Data.Users.Saved[digits])
	}
	for _, user := range all {
		phone, _ := user["phone"].(string)
		last := object{}
		for id := range s.Data.Numbers {
			if newest := s.Data.LatestMessages(state.Pair{Number: id, User: phone}, 1); len(newest) > 0 {
				last[id] = json.RawMessage(wire.Encode(newest[0]))
			}
		}
		user["last"] = last
	}
	return all
}

// readThread lists the chat between a user and a number.
func (s *Server) readThread(c *request) (any, error) {
	query := c.R.URL.Query()
	if err := checkNames(query, "phone_number_id", "user"); err != nil {
		return nil, err
	}
	number := query.Get("phone_number_id")
	if number == "" {
		return nil, wire.Refusal(100, "phone_number_id is required: the business number of the chat")
	}
	digits, ok := wire.UserDigits(query.Get("user"))
	if !ok {
		return nil, wire.Refusal(100, "user must be the phone number of the user, such as 15550100001")
	}
	thread := append([]*state.ChatMessage{}, s.Data.LatestMessages(state.Pair{Number: number, User: digits}, 500)...)
	return object{"data": json.RawMessage(wire.Encode(thread))}, nil // encoded under the lock
}
