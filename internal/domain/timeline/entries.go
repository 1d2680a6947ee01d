package timeline

import (
	"fmt"
	"strconv"
	"time"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Detail is what is known of a step. Which fields it has depends on the kind.
type Detail struct {
	// Summary says in one or two sentences what happened, for people.
	Summary string `json:"summary"`

	// Of a request.
	Method   string `json:"method,omitempty"`
	Path     string `json:"path,omitempty"`
	APIKeyID string `json:"api_key_id,omitempty"`

	// Of the acceptance.
	Direction   messages.Direction `json:"direction,omitempty"`
	Source      messages.Source    `json:"source,omitempty"`
	SentAt      *clock.Stamp       `json:"sent_at,omitempty"`
	MediaStatus *string            `json:"media_status,omitempty"`

	// Of attempts to send, and of statuses.
	Attempt      int                     `json:"attempt,omitempty"` // also of a delivery
	Outcome      messages.AttemptOutcome `json:"outcome,omitempty"`
	Resend       bool                    `json:"resend,omitempty"`
	WaitedUntil  *clock.Stamp            `json:"waited_until,omitempty"`
	KnownBy      KnownBy                 `json:"known_by,omitempty"`
	Code         *fault.Code             `json:"code,omitempty"`
	ProviderCode *int                    `json:"provider_code,omitempty"`

	// Of events and deliveries.
	Type           string                   `json:"type,omitempty"` // also of the message
	EventID        string                   `json:"event_id,omitempty"`
	EventUID       *events.ID               `json:"event_uid,omitempty"`
	DeliveryID     *webhooks.DeliveryID     `json:"delivery_id,omitempty"`
	SubscriptionID *webhooks.SubscriptionID `json:"subscription_id,omitempty"`
	Host           string                   `json:"host,omitempty"`
	AttemptCount   *int                     `json:"attempt_count,omitempty"`
	NextAttemptAt  *clock.Stamp             `json:"next_attempt_at,omitempty"`
	ErrorCode      *string                  `json:"error_code,omitempty"`
	ReplayedFrom   *webhooks.DeliveryID     `json:"replayed_from,omitempty"`

	// Of several kinds.
	Status         string `json:"status,omitempty"`
	ResponseStatus *int   `json:"response_status,omitempty"`
	DurationMs     *int64 `json:"duration_ms,omitempty"`
}

// KnownBy is what a status is known by.
type KnownBy string

// What statuses are known by.
const (
	ByAnswer   KnownBy = "answer"   // the provider's answer to an attempt
	ByCallback KnownBy = "callback" // a callback of the provider
	ByParley   KnownBy = "parley"   // no word of the provider
)

// The ranks of entries of the same time. Attempts and statuses add a number below ranksEach.
const (
	ranksEach   = 100_000
	rankRequest = iota * ranksEach
	rankAccepted
	rankAttempt
	rankStatus
	rankEvent
	rankDelivery
	rankDeliveryAttempt
)

func entry(kind Kind, at time.Time, rank int, id string, detail Detail) Entry {
	return Entry{Position: Position{At: at, Rank: rank, ID: id}, Kind: kind, Detail: detail}
}

// entries are all entries, in any order.
func (g *gathered) entries() (all []Entry) {
	if g.logged {
		all = append(all, requestEntry(g.request))
	}
	all = append(all, g.acceptedEntry())
	for i := range g.Attempts {
		all = append(all, g.attemptEntry(i))
	}
	all = append(all, g.statusEntries()...)
	for _, one := range g.events {
		all = append(all, g.eventEntry(one))
	}
	for _, one := range g.trail.Deliveries {
		all = append(all, g.deliveryEntry(one))
	}
	return append(all, g.deliveryAttemptEntries()...)
}

func requestEntry(r apilogs.Entry) Entry {
	return entry(Request, r.ID.CreatedAt(), rankRequest, r.ID.String(), Detail{
		Summary: requestSummary(r), Method: r.Method, Path: r.Path, APIKeyID: r.KeyID.String(),
		ResponseStatus: &r.Status, DurationMs: new(r.Duration.Milliseconds()),
	})
}

func (g *gathered) acceptedEntry() Entry {
	first := messages.Queued
	switch {
	case g.Direction == messages.Inbound:
		first = messages.Delivered
	case g.Source == messages.FromApp:
		first = messages.Sent
	}
	detail := Detail{
		Summary: g.acceptedSummary(), Direction: g.Direction, Source: g.Source, Type: g.Type, Status: string(first), MediaStatus: g.MediaState,
	}
	if g.Direction == messages.Inbound { // an error is that of its file
		detail.SentAt, detail.Code, detail.ProviderCode = clock.StampOrNil(g.SentAt), g.ErrorCode, g.ProviderCode
	}
	return entry(Accepted, g.ID.CreatedAt(), rankAccepted, g.ID.String(), detail)
}

func (g *gathered) attemptEntry(i int) Entry {
	a := g.Attempts[i]
	detail := Detail{
		Summary: g.attemptSummary(i), Attempt: a.Attempt, Outcome: a.Outcome, Resend: a.Resend, WaitedUntil: clock.StampOrNil(a.WaitedUntil),
		Code: a.ErrorCode, ProviderCode: a.ProviderCode,
	}
	if a.EndedAt != nil {
		detail.DurationMs = new(a.EndedAt.Sub(a.BegunAt).Milliseconds())
	}
	return entry(Attempt, a.BegunAt, rankAttempt+a.Attempt, fmt.Sprintf("%s:%d", g.ID, a.Attempt), detail)
}

// statusEntries are the statuses with their times. The provider gives whole seconds of its own clock. A status is not shown
// before the attempt that may have caused it, nor before the status that goes before it.
func (g *gathered) statusEntries() (all []Entry) {
	var floor time.Time
	for _, a := range g.Attempts {
		if a.Reached() {
			floor = a.BegunAt
			break
		}
	}
	if g.Direction == messages.Inbound {
		floor = g.ID.CreatedAt()
	}
	for rank, one := range []struct {
		status string
		at     *time.Time
		by     KnownBy
		// before says that the statuses behind this one follow it.
		before bool
	}{
		{string(messages.Sent), g.SentAt, g.sentBy(), true},
		{string(messages.Delivered), g.DeliveredAt, ByCallback, true},
		{string(messages.Read), g.ReadAt, g.readBy(), false},
		{statusPlayed, g.PlayedAt, ByCallback, false},
		{string(messages.Failed), g.FailedAt, g.failedBy(g.Synthesized), false},
	} {
		if one.at == nil || g.Direction == messages.Inbound && one.status == string(messages.Sent) {
			continue
		}
		at := latest(floor, *one.at)
		if one.before {
			floor = at
		}
		detail := Detail{Summary: g.statusSummary(one.status), Status: one.status, KnownBy: one.by}
		if one.status == string(messages.Failed) {
			detail.Code, detail.ProviderCode = g.ErrorCode, g.ProviderCode
		}
		all = append(all, entry(Status, at, rankStatus+rank, g.ID.String()+":"+one.status, detail))
	}
	return append(all, g.supersededEntries()...)
}

// supersededEntries are our own failure of the message, if a callback superseded it. The message forgets it then; its event
// is kept for 30 days.
func (g *gathered) supersededEntries() (all []Entry) {
	if g.Synthesized {
		return nil
	}
	for _, one := range g.events {
		status, problem := one.Told()
		if one.Key != g.ID.String() || status != string(messages.Failed) {
			continue
		}
		detail := Detail{Summary: g.supersededSummary(problem), Status: status, KnownBy: g.failedBy(true)}
		if detail.KnownBy == ByAnswer {
			last := g.Attempts[len(g.Attempts)-1]
			detail.Code, detail.ProviderCode = last.ErrorCode, last.ProviderCode
		}
		all = append(all, entry(Status, one.ID.CreatedAt(), rankStatus+ranksEach-1, g.ID.String()+":superseded", detail))
	}
	return all
}

// statusPlayed is a status of callbacks that a message itself never has.
const statusPlayed = "played"

func (g *gathered) sentBy() KnownBy {
	for _, a := range g.Attempts {
		if a.Outcome == messages.AttemptSent {
			return ByAnswer
		}
	}
	return ByCallback
}

func (g *gathered) readBy() KnownBy {
	if g.Direction == messages.Inbound {
		return ByParley
	}
	return ByCallback
}

// failedBy is what a failure is known by: ours is one that Parley synthesized.
func (g *gathered) failedBy(ours bool) KnownBy {
	switch last := g.lastOutcome(); {
	case !ours:
		return ByCallback
	case last == messages.AttemptRefused || last == messages.AttemptFailed:
		return ByAnswer
	default:
		return ByParley
	}
}

// lastOutcome is that of the last attempt; empty if there is none.
func (g *gathered) lastOutcome() messages.AttemptOutcome {
	if len(g.Attempts) == 0 {
		return ""
	}
	return g.Attempts[len(g.Attempts)-1].Outcome
}

func (g *gathered) eventEntry(one events.Recorded) Entry {
	deliveries := 0
	for _, delivery := range g.trail.Deliveries {
		if delivery.EventID == one.ID && delivery.ReplayedFrom == nil {
			deliveries++
		}
	}
	return entry(Event, one.ID.CreatedAt(), rankEvent, one.ID.String(), Detail{
		Summary: g.eventSummary(one, deliveries), Type: string(one.Type), EventID: one.Key, Status: one.Status(),
	})
}

func (g *gathered) deliveryEntry(d webhooks.Delivery) Entry {
	detail := g.deliveryDetail(d)
	detail.Summary, detail.Status, detail.ErrorCode = g.deliverySummary(d), string(d.Status), d.ErrorCode
	detail.AttemptCount, detail.NextAttemptAt, detail.ReplayedFrom = &d.AttemptCount, clock.StampOrNil(g.due(d)), d.ReplayedFrom
	detail.ResponseStatus, detail.DurationMs = d.ResponseStatus, wide(d.DurationMs)
	return entry(Delivery, d.ID.CreatedAt(), rankDelivery, d.ID.String(), detail)
}

// deliveryDetail is what the entries of a delivery and of its attempts have in common.
func (g *gathered) deliveryDetail(d webhooks.Delivery) Detail {
	return Detail{
		SubscriptionID: &d.SubscriptionID, Host: g.trail.Endpoints[d.SubscriptionID].Host, Type: string(d.EventType),
		EventID: d.EventKey, EventUID: &d.EventID,
	}
}

// due is when a delivery is attempted again at the earliest: a breaker holds it back for longer. It is nil if there is no
// further attempt, or none before somebody resumes the subscription.
func (g *gathered) due(d webhooks.Delivery) *time.Time {
	endpoint, there := g.trail.Endpoints[d.SubscriptionID]
	if d.NextAttemptAt == nil || !there || endpoint.Status != webhooks.Active {
		return nil
	}
	if endpoint.BreakerUntil != nil {
		return new(latest(*endpoint.BreakerUntil, *d.NextAttemptAt))
	}
	return d.NextAttemptAt
}

// deliveryAttemptEntries are the attempts of deliveries that did not succeed at the first. When the attempt after each was made is
// known, and of the last when it is due.
func (g *gathered) deliveryAttemptEntries() []Entry {
	deliveries, following := map[webhooks.DeliveryID]webhooks.Delivery{}, map[webhooks.DeliveryID]time.Time{}
	for _, d := range g.trail.Deliveries {
		deliveries[d.ID] = d
	}
	all := make([]Entry, len(g.trail.Attempts))
	for i := len(all) - 1; i >= 0; i-- {
		a := g.trail.Attempts[i]
		d, at := deliveries[a.DeliveryID], a.ID.CreatedAt()
		detail := g.deliveryDetail(d)
		next, followed := following[a.DeliveryID]
		following[a.DeliveryID] = at
		switch {
		case a.ErrorCode == nil:
			detail.Summary = attemptTook(a)
		case followed:
			detail.Summary, detail.NextAttemptAt = attemptFailed(a)+" The next attempt: "+moment(next)+".", clock.StampOrNil(&next)
		default:
			detail.Summary, detail.NextAttemptAt = attemptFailed(a)+" "+g.afterLast(d), clock.StampOrNil(g.due(d))
		}
		detail.DeliveryID, detail.Attempt = &a.DeliveryID, a.Attempt.Attempt
		detail.ResponseStatus, detail.DurationMs, detail.ErrorCode = a.ResponseStatus, wide(a.DurationMs), a.ErrorCode
		all[i] = entry(Delivery, at, rankDeliveryAttempt+a.Attempt.Attempt, a.DeliveryID.String()+":"+strconv.Itoa(a.Attempt.Attempt), detail)
	}
	return all
}

func wide(value *int) *int64 {
	if value == nil {
		return nil
	}
	return new(int64(*value))
}

// leftOut says what is missing.
func (g *gathered) leftOut() []LeftOut {
	missing := []LeftOut{}
	add := func(kind Kind, reason Reason, format string, args ...any) {
		missing = append(missing, LeftOut{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case g.RequestID.IsZero() || g.logged:
	case g.requestExpired():
		add(Request, Expired, "The API log is kept for %d days, and the request is older.", days(apilogs.Kept))
	default:
		add(Request, NotLogged, "The API log does not have the request. It is written within seconds of the request; a crash can lose it.")
	}
	if oldest := g.now.Add(-events.Kept); g.ID.CreatedAt().Before(oldest) {
		add(Event, Expired, "Events are kept for %d days: those before %s are left out.", days(events.Kept), moment(oldest))
		add(Delivery, Expired, "Webhook deliveries are kept for %d days: those before %s are left out.", days(events.Kept), moment(oldest))
	}
	if g.moreEvents {
		add(Event, TooMany, "Only the first %d events are shown.", mostEvents)
	}
	if g.trail.Cut {
		add(Delivery, TooMany, "Only the first webhook deliveries and attempts are shown. List all with GET /webhook_deliveries?event_id=…")
	}
	return missing
}

func days(kept time.Duration) int { return int(kept / (24 * time.Hour)) }
