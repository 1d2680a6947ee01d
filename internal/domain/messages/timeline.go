package messages

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// AttemptOutcome is how an attempt to send a message ended.
type AttemptOutcome string

// The outcomes. The last two are not stored: they follow from the state of the message.
const (
	// AttemptNotCalled: a check failed, and the provider was not called.
	AttemptNotCalled AttemptOutcome = "not_called"
	// AttemptRefused: the provider will not take the message.
	AttemptRefused AttemptOutcome = "refused"
	// AttemptFailed: the provider could not take the message then.
	AttemptFailed AttemptOutcome = "failed"
	// AttemptUnknown: the provider gave no answer that says whether it took the message.
	AttemptUnknown AttemptOutcome = "unknown"
	// AttemptSent: the provider took the message.
	AttemptSent AttemptOutcome = "sent"
	// AttemptUnderWay: it has begun and has no result yet.
	AttemptUnderWay AttemptOutcome = "under_way"
)

// Attempt is one attempt to send a message.
type Attempt struct {
	Attempt int
	BegunAt time.Time
	// EndedAt is nil while the attempt is under way, and if nothing noted its end.
	EndedAt      *time.Time
	Outcome      AttemptOutcome
	ErrorCode    *fault.Code
	ProviderCode *int

	// WaitedUntil, of an attempt with an unknown result, is when the message was sent again, or until when that
	// waits at least. It is nil if the message is not sent again.
	WaitedUntil *time.Time `db:"-"`
	// Resend says that the attempt before it had an unknown result.
	Resend bool `db:"-"`
}

// Reached tells that the provider has the message by this attempt, or may have it.
func (a Attempt) Reached() bool {
	return a.Outcome == AttemptUnknown || a.Outcome == AttemptSent || a.Outcome == AttemptUnderWay
}

// Story is a message with all attempts to send it, oldest first.
type Story struct {
	Message

	Attempts []Attempt
	// Uploads is about the library files of the message; nil if it has none.
	Uploads *media.Progress
}

// Story returns what its timeline shows of a message of a number.
func (s *Service) Story(ctx context.Context, org orgs.ID, of accounts.Account, id ID) (Story, error) {
	found, noted, err := storyOf(ctx, s.db.SteadyOf(org), of.ID, id)
	if err != nil {
		return Story{}, notFound(err)
	}
	story := Story{Message: found.Message, Attempts: found.attempts(noted, s.echoWait)}
	if story.Source == FromContact || story.Source == FromApp {
		return story, nil // their content was not checked
	}
	_, files, err := libraryFiles(story.Type, story.Content)
	if err != nil || len(files) == 0 {
		return story, err
	}
	uploads, err := s.media.Progress(ctx, s.db.SteadyOf(org), of.ID, id.Any(), files)
	story.Uploads = &uploads
	return story, err
}

// EventKeys are the keys under which the events of the message are recorded. Edits and revocations have others.
func (m Message) EventKeys() []string {
	keys := []string{m.ID.String(), m.sentKey()}
	for _, id := range []*string{m.ProviderID, m.SecondProviderID} {
		if id != nil {
			keys = append(keys, *id)
		}
	}
	return keys
}

// storyRow is a message with the times of its last attempt.
type storyRow struct {
	Message
	LastBegunAt *time.Time
	AnsweredAt  *time.Time
}

const (
	sqlStory = `
SELECT ` + columns + `, ` + stateColumns + `, ` + contactColumns + `, st.last_begun_at, st.answered_at` + sqlFromOne
	// A message has few: at most five that failed, two with an unknown result and one that was not called.
	sqlAttempts = `
SELECT attempt, begun_at, ended_at, outcome, error_code, provider_code
FROM send_attempts
WHERE org_id = @org_id
  AND message_id = @id
ORDER BY attempt`
)

func storyOf(ctx context.Context, scope postgres.Scope, of accounts.ID, id ID) (found storyRow, noted []Attempt, err error) {
	err = postgres.Batch(ctx, scope,
		postgres.IntoOne(&found, sqlStory, postgres.Args{argAccount: of, "id": id}),
		postgres.IntoMany(&noted, sqlAttempts, postgres.Args{"id": id}))
	return found, noted, err
}

// attempts are the noted ones and the last one, which is noted only if it did not succeed.
func (r *storyRow) attempts(noted []Attempt, echoWait time.Duration) []Attempt {
	if last := r.lastAttempt(); last != nil && !slices.ContainsFunc(noted, func(a Attempt) bool { return a.Attempt == last.Attempt }) {
		noted = append(noted, *last)
	}
	for i := range noted {
		one := &noted[i]
		if i > 0 {
			one.Resend = noted[i-1].Outcome == AttemptUnknown
		}
		switch {
		case one.Outcome != AttemptUnknown && one.Outcome != AttemptUnderWay:
		case i+1 < len(noted):
			one.WaitedUntil = &noted[i+1].BegunAt
		case r.BegunAt != nil:
			one.WaitedUntil = new(one.BegunAt.Add(echoWait))
		}
	}
	return noted
}

// lastAttempt is the last attempt as the state of the message shows it; nil if there was none, or if it was put
// off before it was called.
func (r *storyRow) lastAttempt() *Attempt {
	if r.Attempt == 0 {
		return nil
	}
	last := &Attempt{Attempt: r.Attempt, EndedAt: r.AnsweredAt}
	switch {
	case r.AnsweredAt != nil:
		last.Outcome = AttemptSent
	case r.BegunAt != nil:
		last.Outcome = AttemptUnderWay
	case r.Status == Queued || r.Status == Pending:
		return nil
	case r.LastBegunAt == nil && !r.Synthesized: // sent before these times were kept
		last.Outcome = AttemptSent
	default: // a callback proved it, or ended it
		last.Outcome = AttemptUnknown
	}
	for _, at := range []*time.Time{r.LastBegunAt, r.BegunAt, r.SentAt, r.FailedAt} {
		if at != nil {
			last.BegunAt = *at
			return last
		}
	}
	return nil
}
