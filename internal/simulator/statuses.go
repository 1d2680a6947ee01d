package simulator

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// dispatch is an accepted message on its way.
type dispatch struct {
	number   *number
	who      *person
	id       string
	kind     string
	category string // of pricing
	opaque   string
	at       time.Time
	byUserID bool // addressed by user id
	open     bool // inside of the 24-hour window
	voice    bool
	failure  *wire.Error
	outcome  outcome
}

func (d *dispatch) describe(m *message) {
	d.category = "service"
	if m.template != nil {
		d.category = strings.ToLower(m.template.Category)
	}
	if content, ok := m.content.(object); ok {
		d.voice = m.kind == "audio" && content["voice"] == true
	}
}

// step is a status and when it is reported.
type step struct {
	status string
	at     time.Time
	told   time.Time
}

// holdFor is how long a message is held to judge its template.
const holdFor = 3 * time.Second

// begin lets an accepted message live: linked files are fetched first.
func (s *Simulator) begin(d *dispatch, m *message) {
	if s.world.settings.Silent || d.outcome.NoStatus {
		return
	}
	if _, link := source(m); link != "" && s.world.settings.FetchLinks && d.failure == nil {
		s.fetch(d, m.kind, link)
		return
	}
	s.schedule(d)
}

// schedule puts the statuses of a message on the agenda; the caller holds the lock.
func (s *Simulator) schedule(d *dispatch) {
	steps := s.steps(d)
	if s.world.settings.Shuffle {
		s.random.Shuffle(len(steps), func(i, j int) { steps[i].told, steps[j].told = steps[j].told, steps[i].told })
	}
	for _, next := range steps {
		report := func() { s.report(d, next) }
		if !s.agenda.At(next.told, report) {
			s.counts.full.Add(1)
		}
		if d.outcome.Twice {
			s.agenda.At(next.told, report)
		}
	}
}

func (s *Simulator) steps(d *dispatch) (steps []step) {
	settings := s.world.settings
	start := d.at
	if now := s.Now(); now.After(start) {
		start = now
	}
	if d.outcome.Held {
		start = start.Add(holdFor)
	}
	add := func(status string, delay int) {
		if delay >= 0 {
			when := start.Add(time.Duration(delay) * time.Millisecond)
			steps = append(steps, step{status: status, at: when, told: when})
		}
	}
	if d.failure != nil {
		add("failed", max(settings.SentDelayMS, 0))
		return steps
	}
	add("sent", settings.SentDelayMS)
	if d.kind == kindReaction || d.who.Blocked || d.outcome.Last == "sent" {
		return steps
	}
	add("delivered", settings.DeliveredDelayMS)
	if d.who.NoReceipts || d.outcome.Last == "delivered" {
		return steps
	}
	add("read", settings.ReadDelayMS)
	if d.voice && settings.ReadDelayMS >= 0 {
		add("played", settings.ReadDelayMS+1000)
	}
	return steps
}

// report tells subscribers that a message reached a status.
func (s *Simulator) report(d *dispatch, next step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.statuses.Add(1)
	s.advance(d.id, next.status, d.failure)
	s.tell(event{
		account: d.number.Account, number: d.number, field: fieldMessages,
		valueFor: func(a *app) any { return s.statusValue(d, next, a) },
	})
}

type statusValue struct {
	Product  string          `json:"messaging_product"`
	Metadata metadata        `json:"metadata"`
	Contacts []contact       `json:"contacts,omitempty"`
	Statuses []statusOfThing `json:"statuses"`
}

type metadata struct {
	Display       string `json:"display_phone_number"`
	PhoneNumberID string `json:"phone_number_id"`
}

func (n *number) metadata() metadata { return metadata{Display: n.Digits, PhoneNumberID: n.ID} }

type contact struct {
	Profile      *profile `json:"profile,omitempty"`
	WaID         string   `json:"wa_id,omitempty"`
	UserID       string   `json:"user_id"`
	ParentUserID string   `json:"parent_user_id,omitempty"`
	IdentityHash string   `json:"identity_key_hash,omitempty"`
}

type profile struct {
	Name     string `json:"name,omitempty"`
	Username string `json:"username,omitempty"`
}

type statusOfThing struct {
	ID                    string        `json:"id"`
	Status                string        `json:"status"`
	Timestamp             string        `json:"timestamp"`
	RecipientID           string        `json:"recipient_id,omitempty"`
	RecipientUserID       string        `json:"recipient_user_id,omitempty"`
	RecipientParentUserID string        `json:"recipient_parent_user_id,omitempty"`
	Opaque                string        `json:"biz_opaque_callback_data,omitempty"`
	Conversation          *conversation `json:"conversation,omitempty"`
	Pricing               *pricing      `json:"pricing,omitempty"`
	Errors                []toldError   `json:"errors,omitempty"`
}

type conversation struct {
	ID      string `json:"id"`
	Expires string `json:"expiration_timestamp,omitempty"`
	Origin  struct {
		Type string `json:"type"`
	} `json:"origin"`
}

type pricing struct {
	Billable bool   `json:"billable"`
	Model    string `json:"pricing_model"`
	Type     string `json:"type"`
	Category string `json:"category"`
}

// toldError is an error in a callback.
type toldError struct {
	Code    int    `json:"code"`
	Title   string `json:"title"`
	Message string `json:"message"`
	Data    struct {
		Details string `json:"details"`
	} `json:"error_data"`
	Href string `json:"href,omitempty"`
}

func told(e *wire.Error) []toldError {
	t := toldError{
		Code: e.Code, Title: e.Title, Message: e.Title,
		Href: "https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes/",
	}
	t.Data.Details = e.Details
	return []toldError{t}
}

func (s *Simulator) statusValue(d *dispatch, next step, a *app) any {
	owner := d.number.Account
	status := statusOfThing{
		ID: d.id, Status: next.status, Timestamp: seconds(next.at), Opaque: d.opaque, RecipientID: d.who.shownPhone(),
	}
	value := statusValue{Product: wire.Product, Metadata: d.number.metadata()}
	if next.status != "failed" || d.byUserID {
		status.RecipientUserID, status.RecipientParentUserID = d.who.userID(owner), d.who.parentUserID(owner)
	}
	if next.status == "failed" {
		status.Errors = told(d.failure)
	} else {
		known := contactOf(d.who, owner)
		if next.status == "sent" {
			known.Profile.Username = ""
		}
		value.Contacts = []contact{known}
	}
	settings := s.world.settings
	if next.status == "sent" || next.status == "delivered" || next.status == "read" && settings.DeliveredDelayMS < 0 {
		status.Pricing = d.pricing()
		if readable(a.Version) < 24 {
			status.Conversation = d.conversation(next)
		}
	}
	value.Statuses = []statusOfThing{status}
	return value
}

func contactOf(who *person, owner *account) contact {
	return contact{
		Profile: &profile{Name: who.Name, Username: who.Username}, WaID: who.shownPhone(),
		UserID: who.userID(owner), ParentUserID: who.parentUserID(owner), IdentityHash: who.IdentityHash,
	}
}

func (d *dispatch) pricing() *pricing {
	p := &pricing{Billable: true, Model: "PMP", Type: "regular", Category: d.category}
	if d.category == "service" || d.category == "utility" && d.open {
		p.Billable, p.Type = false, "free_customer_service"
	}
	return p
}

func (d *dispatch) conversation(next step) *conversation {
	c := &conversation{ID: strings.ToLower(strings.TrimPrefix(d.id, "wamid."))[:32]}
	c.Origin.Type = d.category
	if next.status == "sent" {
		c.Expires = seconds(next.at.Add(24 * time.Hour))
	}
	return c
}

// seconds is a timestamp as messages and statuses carry it.
func seconds(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// encode is for values of our own making, which always can be encoded.
func encode(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		return []byte("null")
	}
	return encoded
}
