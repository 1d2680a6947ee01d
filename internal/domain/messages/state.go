package messages

import (
	"cmp"
	"math"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// Status is how far a message has come.
type Status string

// The statuses, in their order. A failure that the provider reported is final. Our own failure
// (Synthesized) is undone by any callback that proves the send.
const (
	Queued    Status = "queued"
	Pending   Status = "pending"
	Sent      Status = "sent"
	Delivered Status = "delivered"
	Read      Status = "read"
	Failed    Status = "failed"
)

// rank orders the statuses: a message never goes back to a lower one.
func (s Status) rank() int {
	switch s {
	case Pending:
		return 1
	case Sent:
		return 2
	case Delivered:
		return 3
	case Read:
		return 4
	case Failed:
		return 5
	case Queued:
	}
	return 0
}

// announcements are the events of a message that were recorded, one bit for each.
type announcements int16

const (
	announcedMessageSent announcements = 1 << iota // message.sent
	announcedSent                                  // message.status, by the status of a callback
	announcedDelivered
	announcedRead
	announcedPlayed
	announcedFailed
	announcedSynthesized // message.status of our own failure
	announcedReceived    // message.received
)

// State is what changes of a message.
type State struct {
	Status Status
	// ErrorCode, ErrorMessage and ProviderCode say why it failed; nil otherwise.
	ErrorCode    *fault.Code
	ErrorMessage *string
	ProviderCode *int
	// Synthesized says that the failure is our own word. A proof that the provider took the message
	// supersedes it.
	Synthesized bool
	// ProviderID is the provider's id of the message, SecondProviderID that of a second copy.
	ProviderID       *string
	SecondProviderID *string
	Announced        announcements
	// Attempt is the number of the last attempt, 0 before the first. BegunAt is when it began, and nil
	// when its result is known.
	Attempt int
	BegunAt *time.Time
	// Failures counts attempts that failed with a temporary error; Resent says that an attempt with an unknown
	// result was followed by another, or must not be.
	Failures int
	Resent   bool

	SentAt      *time.Time
	DeliveredAt *time.Time
	ReadAt      *time.Time
	PlayedAt    *time.Time
	FailedAt    *time.Time

	IsRevoked bool
	File
}

// File is the file of a message.
type File struct {
	MediaState *string
	MediaType  *string
	MediaSize  *int64
	MediaKey   *string
}

// callback is a status that the provider pushed.
type callback struct {
	// Attempt is the attempt whose reference the callback carries; 0 if it carries none.
	Attempt    int
	ProviderID string
	Status     string
	At         time.Time
	Error      *provider.Error
}

// apply merges a callback into the state. It returns whether message.status is to be recorded for
// it. The merge is a join: callbacks in any order and any number of times give the same state.
func (s *State) apply(c callback) (announce bool) {
	s.Attempt = max(s.Attempt, c.Attempt) // one that this database has forgotten: it was restored from a backup
	s.learn(c.ProviderID, c.Attempt)
	switch c.Status {
	case provider.StatusSent:
		s.SentAt = earlier(s.SentAt, c.At)
		return s.proved(Sent, announcedSent)
	case provider.StatusDelivered:
		s.SentAt, s.DeliveredAt = earlier(s.SentAt, c.At), earlier(s.DeliveredAt, c.At)
		return s.proved(Delivered, announcedDelivered)
	case provider.StatusRead:
		s.SentAt, s.ReadAt = earlier(s.SentAt, c.At), earlier(s.ReadAt, c.At)
		return s.proved(Read, announcedRead)
	case provider.StatusPlayed:
		s.SentAt, s.PlayedAt = earlier(s.SentAt, c.At), earlier(s.PlayedAt, c.At)
		return s.proved(Sent, announcedPlayed)
	case provider.StatusFailed:
		s.failedBy(c)
		return s.announce(announcedFailed)
	default: // a status that is not known proves that the provider has the message, and has no event
		s.SentAt = earlier(s.SentAt, c.At)
		return s.proved(Sent, 0)
	}
}

// proved raises the status to one that the provider has proved. Our own failure is taken back.
func (s *State) proved(status Status, event announcements) (announce bool) {
	if s.Status == Failed && s.Synthesized {
		s.Status, s.Synthesized = Pending, false
		s.ErrorCode, s.ErrorMessage, s.ProviderCode, s.FailedAt = nil, nil, nil, nil
	}
	if status.rank() > s.Status.rank() {
		s.Status = status
	}
	s.BegunAt = nil
	return s.announce(event)
}

// failedBy notes a failure that the provider reported. Of several the earliest counts; of those at
// the same time the least, so that the order of callbacks does not matter.
func (s *State) failedBy(c callback) {
	code, words, number := failureOf(c.Error)
	if s.Status != Failed || s.Synthesized || s.failedAfter(c.At, code, words, number) {
		s.ErrorCode, s.ErrorMessage, s.ProviderCode, s.FailedAt = &code, &words, number, &c.At
	}
	s.Status, s.Synthesized, s.BegunAt = Failed, false, nil
}

// failedAfter tells that another failure goes before the one that is known.
func (s *State) failedAfter(at time.Time, code fault.Code, words string, number *int) bool {
	return cmp.Or(at.Compare(*s.FailedAt), cmp.Compare(numberOf(number), numberOf(s.ProviderCode)),
		cmp.Compare(code, *s.ErrorCode), cmp.Compare(words, *s.ErrorMessage)) < 0
}

// fail notes our own failure of a message: a refusal, or the end of all tries.
func (s *State) fail(code fault.Code, words string, number *int, at time.Time) {
	s.Status, s.Synthesized, s.BegunAt = Failed, true, nil
	s.ErrorCode, s.ErrorMessage, s.ProviderCode, s.FailedAt = &code, &words, number, &at
}

// accepted notes that the provider took an attempt.
func (s *State) accepted(providerID string, attempt int, at time.Time) {
	s.learn(providerID, attempt)
	s.SentAt = earlier(s.SentAt, at)
	s.proved(Sent, 0)
}

// learn keeps the provider's ids of the message: that of the earlier attempt first. There is no new
// attempt once an id is known, so that any attempt but the last is the earlier one.
func (s *State) learn(providerID string, attempt int) {
	known := func(id *string) bool { return id != nil && *id == providerID }
	switch {
	case providerID == "" || known(s.ProviderID) || known(s.SecondProviderID):
	case s.ProviderID == nil:
		s.ProviderID = &providerID
	case s.SecondProviderID == nil && attempt > 0 && attempt < s.Attempt:
		s.ProviderID, s.SecondProviderID = &providerID, s.ProviderID
	case s.SecondProviderID == nil:
		s.SecondProviderID = &providerID
	}
}

// announce marks an event as recorded and returns whether it was not yet.
func (s *State) announce(event announcements) bool {
	before := s.Announced
	s.Announced |= event
	return before != s.Announced
}

// calledBack tells that the provider has called back about the message.
func (s *State) calledBack() bool {
	return s.Announced&^(announcedMessageSent|announcedSynthesized|announcedReceived) != 0
}

func failureOf(err *provider.Error) (code fault.Code, words string, number *int) {
	if err == nil {
		return fault.UpstreamError, "The provider reported a failure and gave no reason.", nil
	}
	if words = err.Words(); words == "" {
		words = "The provider reported a failure and gave no reason."
	}
	return err.Code, words, err.ProviderCode
}

// numberOf orders failures without a code before those with one.
func numberOf(code *int) int {
	if code == nil {
		return math.MinInt
	}
	return *code
}

// earlier is the earlier of two times. Within one second the later one wins, because callbacks have
// whole seconds and our own clock is more precise.
func earlier(known *time.Time, at time.Time) *time.Time {
	if known == nil {
		return &at
	}
	seconds := cmp.Compare(at.Unix(), known.Unix())
	if seconds < 0 || seconds == 0 && at.After(*known) {
		return &at
	}
	return known
}
