package state

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// majorVersion reads the number of an API version, 0 when there is none.
func majorVersion(version string) (major int) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d", &major) // stays 0
	return major
}

// Delivery is an accepted message whose statuses are to be reported.
type Delivery struct {
	Number     *Number
	User       *User
	ID         string
	Kind       string
	Category   string // for the pricing
	Opaque     string
	AcceptedAt time.Time
	ByUserID   bool // addressed by user id
	WindowOpen bool // accepted within the 24-hour window
	Voice      bool
	Dropped    bool        // no status is posted, because of drop_messages
	Failure    *wire.Error // why it fails; nil: it is delivered
	Outcome    Outcome
}

// plannedStatus is a status, its timestamp, and when it is reported.
type plannedStatus struct {
	status   string
	at       time.Time
	reportAt time.Time
}

// holdTime is how long a message is held for quality assessment.
const holdTime = 3 * time.Second

// AcceptSend adds a send to the log, downloads its linked file, and then schedules its statuses.
// The caller holds the lock.
func (s *Simulation) AcceptSend(d *Delivery, link string) {
	silent := s.Data.Settings.Silent || d.Outcome.NoStatus
	// The number is drawn under every setting, so that a change of drop_messages does not shift
	// which of the later messages are dropped.
	d.Dropped = s.losses.Float64() < s.Data.Settings.DropMessages
	s.Counters.Accepted.Add(1)
	s.Data.Sent.Add(SentEntry{
		ID: d.ID, Number: d.Number, To: d.User.Phone, Kind: d.Kind, Opaque: d.Opaque, AcceptedAt: d.AcceptedAt,
		CallbacksDropped: d.Dropped || silent,
	})
	if silent {
		return
	}
	if link != "" && s.Data.Settings.FetchLinks && d.Failure == nil {
		s.fetchLink(d, link)
		return
	}
	s.ScheduleStatuses(d)
}

// ScheduleStatuses schedules the statuses of a message. The caller holds the lock.
func (s *Simulation) ScheduleStatuses(d *Delivery) {
	planned := s.plannedStatuses(d)
	if s.Data.Settings.Shuffle {
		s.random.Shuffle(len(planned), func(i, j int) {
			planned[i].reportAt, planned[j].reportAt = planned[j].reportAt, planned[i].reportAt
		})
	}
	for _, next := range planned {
		report := func() { s.reportStatus(d, next) }
		if !s.Scheduler.At(next.reportAt, report) {
			s.Counters.unscheduled.Add(1)
		}
		if d.Outcome.Twice {
			s.Scheduler.At(next.reportAt, report)
		}
	}
}

// plannedStatuses returns the statuses that a message will reach.
func (s *Simulation) plannedStatuses(d *Delivery) (planned []plannedStatus) {
	settings := s.Data.Settings
	start := d.AcceptedAt
	if now := s.Now(); now.After(start) {
		start = now
	}
	if d.Outcome.Held {
		start = start.Add(holdTime)
	}
	add := func(status string, delay int) {
		if delay >= 0 {
			when := start.Add(time.Duration(delay) * time.Millisecond)
			planned = append(planned, plannedStatus{status: status, at: when, reportAt: when})
		}
	}
	if d.Failure != nil {
		add("failed", max(settings.SentDelayMS, 0))
		return planned
	}
	add("sent", settings.SentDelayMS)
	if d.Kind == wire.KindReaction || d.User.Blocked || d.Outcome.Last == "sent" {
		return planned
	}
	add(delivered, settings.DeliveredDelayMS)
	if d.User.NoReceipts || d.Outcome.Last == delivered {
		return planned
	}
	add("read", settings.ReadDelayMS)
	if d.Voice && settings.ReadDelayMS >= 0 {
		add("played", settings.ReadDelayMS+1000)
	}
	return planned
}

// reportStatus notifies the apps that a message reached a status.
func (s *Simulation) reportStatus(d *Delivery, next plannedStatus) {
	s.Lock()
	defer s.Unlock()
	s.Counters.statuses.Add(1)
	s.advanceStatus(d.ID, next.status, d.Failure) // the user gets the message, also when the app is not told
	if d.Dropped {
		s.Counters.lost.Add(1)
		return
	}
	s.Notify(Notification{
		Account: d.Number.Account, Number: d.Number, Field: wire.FieldMessages,
		valueFor: func(a *App) any { return s.statusValue(d, next, a) },
	})
}

type statusValue struct {
	Product  string          `json:"messaging_product"`
	Metadata Metadata        `json:"metadata"`
	Contacts []Contact       `json:"contacts,omitempty"`
	Statuses []messageStatus `json:"statuses"`
}

// Contact is a user in a callback.
type Contact struct {
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

type messageStatus struct {
	ID                    string          `json:"id"`
	Status                string          `json:"status"`
	Timestamp             string          `json:"timestamp"`
	RecipientID           string          `json:"recipient_id,omitempty"`
	RecipientUserID       string          `json:"recipient_user_id,omitempty"`
	RecipientParentUserID string          `json:"recipient_parent_user_id,omitempty"`
	Opaque                string          `json:"biz_opaque_callback_data,omitempty"`
	Conversation          *conversation   `json:"conversation,omitempty"`
	Pricing               *pricing        `json:"pricing,omitempty"`
	Errors                []CallbackError `json:"errors,omitempty"`
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

// CallbackError is an error in a callback.
type CallbackError struct {
	Code    int    `json:"code"`
	Title   string `json:"title"`
	Message string `json:"message"`
	Data    struct {
		Details string `json:"details"`
	} `json:"error_data"`
	Href string `json:"href,omitempty"`
}

// CallbackErrors returns an error as the list that a callback carries.
func CallbackErrors(e *wire.Error) []CallbackError {
	one := CallbackError{
		Code: e.Code, Title: e.Title, Message: e.Title,
		Href: "https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes/",
	}
	one.Data.Details = e.Details
	return []CallbackError{one}
}

// statusValue returns the value of the callback about a status.
func (s *Simulation) statusValue(d *Delivery, next plannedStatus, a *App) any {
	owner := d.Number.Account
	status := messageStatus{
		ID: d.ID, Status: next.status, Timestamp: UnixSeconds(next.at), Opaque: d.Opaque, RecipientID: d.User.VisiblePhone(),
	}
	value := statusValue{Product: wire.Product, Metadata: d.Number.Metadata()}
	if next.status != "failed" || d.ByUserID {
		status.RecipientUserID, status.RecipientParentUserID = d.User.UserID(owner), d.User.ParentUserID(owner)
	}
	if next.status == "failed" {
		status.Errors = CallbackErrors(d.Failure)
	} else {
		contact := ContactOf(d.User, owner)
		if next.status == "sent" {
			contact.Profile.Username = ""
		}
		value.Contacts = []Contact{contact}
	}
	settings := s.Data.Settings
	if next.status == "sent" || next.status == delivered || next.status == "read" && settings.DeliveredDelayMS < 0 {
		status.Pricing = d.pricing()
		if majorVersion(a.Version) < 24 {
			status.Conversation = d.conversation(next)
		}
	}
	value.Statuses = []messageStatus{status}
	return value
}

// ContactOf returns a user as callbacks to an account show them.
func ContactOf(user *User, owner *Account) Contact {
	return Contact{
		Profile: &profile{Name: user.Name, Username: user.Username}, WaID: user.VisiblePhone(),
		UserID: user.UserID(owner), ParentUserID: user.ParentUserID(owner), IdentityHash: user.IdentityHash,
	}
}

func (d *Delivery) pricing() *pricing {
	p := &pricing{Billable: true, Model: "PMP", Type: "regular", Category: d.Category}
	if d.Category == "service" || d.Category == "utility" && d.WindowOpen {
		p.Billable, p.Type = false, "free_customer_service"
	}
	return p
}

func (d *Delivery) conversation(next plannedStatus) *conversation {
	c := &conversation{ID: strings.ToLower(strings.TrimPrefix(d.ID, "wamid."))[:32]}
	c.Origin.Type = d.Category
	if next.status == "sent" {
		c.Expires = UnixSeconds(next.at.Add(24 * time.Hour))
	}
	return c
}

// UnixSeconds returns a timestamp as messages and statuses carry it.
func UnixSeconds(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
