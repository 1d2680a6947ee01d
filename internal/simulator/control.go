package simulator

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator/courier"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// convert moves JSON that was read as an object into a struct.
func convert(from object, target any) error {
	encoded, err := json.Marshal(from)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(encoded, target); err != nil {
		return wire.Refusal(100, "%s", err.Error())
	}
	return nil
}

// strict is convert for bodies whose fields are all known: a misspelt one is a mistake.
func strict(from object, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(encode(from)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		return wire.Refusal(100, "%s", err.Error())
	}
	return nil
}

// maxListed is how much of a log is answered at once when nobody says otherwise.
const maxListed = 1_000

// simSent lists what was accepted, newest first.
func (s *Simulator) simSent(c *controlled) (any, error) {
	query := c.r.URL.Query()
	to, numberID, opaque, id := query.Get("to"), query.Get("phone_number_id"), query.Get("opaque"), query.Get("id")
	if digits, ok := wire.UserDigits(to); ok {
		to = digits
	}
	most, skip := maxListed, 0
	if given, err := strconv.Atoi(query.Get("limit")); err == nil {
		most = given
	}
	if given, err := strconv.Atoi(query.Get("skip")); err == nil {
		skip = given
	}
	type line struct {
		ID            string      `json:"id"`
		PhoneNumberID string      `json:"phone_number_id"`
		To            string      `json:"to"`
		Type          string      `json:"type"`
		Opaque        string      `json:"opaque"`
		AcceptedAt    clock.Stamp `json:"accepted_at"`
	}
	found := []line{}
	for e := range s.world.sent.newest {
		if len(found) >= most {
			break
		}
		wanted := (to == "" || to == e.to) && (numberID == "" || numberID == e.number.ID) && (opaque == "" || opaque == e.opaque) &&
			(id == "" || id == e.id)
		if !wanted {
			continue
		}
		if skip--; skip >= 0 {
			continue
		}
		found = append(found, line{e.id, e.number.ID, e.to, e.kind, e.opaque, clock.Stamp(e.at)})
	}
	return object{"data": found}, nil
}

func (s *Simulator) simScript(c *controlled) (any, error) {
	added := &script{}
	if err := strict(c.form, added); err != nil {
		return nil, err
	}
	if to := added.Match.To; to != "" {
		digits, ok := wire.UserDigits(to)
		if !ok {
			return nil, wire.Refusal(100, "match.to is no phone number")
		}
		added.Match.To = digits
	}
	if added.Times != nil && *added.Times < 1 {
		return nil, wire.Refusal(100, "times is at least 1")
	}
	if len(s.world.scripts) >= maxScripts {
		return nil, wire.Refusal(100, "there are %d scripts already", maxScripts)
	}
	added.ID = s.world.id(9)
	s.world.scripts = append(s.world.scripts, added)
	return object{"id": added.ID}, nil
}

func (s *Simulator) simScripts(*controlled) (any, error) {
	listed := make([]script, 0, len(s.world.scripts))
	for _, one := range s.world.scripts {
		listed = append(listed, *one)
	}
	return object{"data": listed}, nil
}

func (s *Simulator) simClearScripts(*controlled) (any, error) {
	s.world.scripts = nil
	return success(), nil
}

func (s *Simulator) simReadSettings(*controlled) (any, error) {
	return s.world.settings, nil
}

func (s *Simulator) simSettings(c *controlled) (any, error) {
	changed := s.world.settings
	if err := strict(c.form, &changed); err != nil {
		return nil, err
	}
	if err := changed.check(); err != nil {
		return nil, err
	}
	s.world.settings = changed
	return changed, nil
}

func (s *Simulator) simReset(*controlled) (any, error) {
	s.reset()
	return success(), nil
}

// simClock lets time pass: windows close, URLs expire, what is due happens.
func (s *Simulator) simClock(c *controlled) (any, error) {
	var body struct {
		AdvanceSeconds float64 `json:"advance_seconds"`
	}
	if err := c.into(&body); err != nil {
		return nil, err
	}
	s.counts.skew.Add(int64(body.AdvanceSeconds * float64(time.Second)))
	s.agenda.Look()
	return object{"now": clock.Stamp(s.Now())}, nil
}

func (s *Simulator) simStats(*controlled) (any, error) { return s.stats(), nil }

// simCallbacks lists the newest posts, newest first.
func (s *Simulator) simCallbacks(*controlled) (any, error) {
	type line struct {
		courier.Attempt

		Body json.RawMessage `json:"body"`
	}
	found := []line{}
	for a := range s.world.attempts.newest {
		found = append(found, line{a, a.Body})
	}
	return object{"data": found}, nil
}

// simThread lists what the phone of a user shows of one number.
func (s *Simulator) simThread(c *controlled) (any, error) {
	query := c.r.URL.Query()
	digits, _ := wire.UserDigits(query.Get("user"))
	said := s.world.thread(pair{query.Get("phone_number_id"), digits}, 500)
	return object{"data": json.RawMessage(encode(said))}, nil // encoded while nobody changes it
}

// simUser creates or changes a person.
func (s *Simulator) simUser(c *controlled) (any, error) {
	digits, ok := wire.UserDigits(c.form.Text("phone"))
	if !ok {
		return nil, wire.Refusal(100, "phone is needed: 7 to 15 digits")
	}
	changed := *s.world.people.byPhone(digits)
	if err := c.into(&changed); err != nil {
		return nil, err
	}
	changed.Phone = digits
	s.world.people.keep(&changed)
	if c.form["window"] == true {
		for _, n := range s.world.numbers {
			s.world.windows.open(pair{n.ID, digits}, c.now)
		}
	}
	s.live.publish("state", struct{}{})
	return s.personState(&changed), nil
}

// personState is a person with the ids that businesses know them by.
func (s *Simulator) personState(who *person) object {
	known := object{}
	_ = json.Unmarshal(encode(who), &known) // our own encoding
	ids := object{}
	for id, owner := range s.world.accounts {
		ids[id] = who.userID(owner)
	}
	known["user_ids"] = ids
	return known
}

// numberOf finds the number that a control names, the first one when it names none.
func (s *Simulator) numberOf(id string) (*number, error) {
	if id == "" {
		id = DefaultPhoneNumberID
	}
	if n := s.world.numbers[id]; n != nil {
		return n, nil
	}
	return nil, wire.Refusal(100, "there is no phone number %s", id)
}

// personOf finds who a control means, by phone or by user id.
func (s *Simulator) personOf(n *number, phone, userID string) (*person, error) {
	if phone != "" {
		digits, ok := wire.UserDigits(phone)
		if !ok {
			return nil, wire.Refusal(100, "%q is no phone number", phone)
		}
		return s.world.people.byPhone(digits), nil
	}
	if who := s.world.people.byUserID(userID, n.Account); who != nil {
		return who, nil
	}
	return nil, wire.Refusal(100, "from or user_id must name a user")
}
