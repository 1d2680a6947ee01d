package messages

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAttempts_LastAttempt_FollowsFromTheState prints the attempts of messages: number, outcome, begin in seconds; `!`
// marks a resend, `<` until when it waited.
func TestAttempts_LastAttempt_FollowsFromTheState(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	at := func(seconds int) *time.Time { return new(start.Add(time.Duration(seconds) * time.Second)) }
	noted := func(number, begun int, outcome AttemptOutcome) Attempt {
		return Attempt{Attempt: number, BegunAt: *at(begun), EndedAt: at(begun + 10), Outcome: outcome}
	}
	for name, test := range map[string]struct {
		state    State
		last     *time.Time
		answered *time.Time
		noted    []Attempt
		want     []string
	}{
		"none yet":     {state: State{Status: Queued}},
		"from the app": {state: State{Status: Delivered, SentAt: at(1)}},
		"under way":    {state: State{Status: Pending, Attempt: 1, BegunAt: at(1)}, last: at(1), want: []string{"1 under_way 1 <121"}},
		"sent":         {state: State{Status: Sent, Attempt: 1, SentAt: at(2)}, last: at(1), answered: at(2), want: []string{"1 sent 1"}},
		"put off":      {state: State{Status: Pending, Attempt: 1}, last: at(1)},
		"waits to be retried": {
			state: State{Status: Pending, Attempt: 1}, last: at(1), noted: []Attempt{noted(1, 1, AttemptFailed)}, want: []string{"1 failed 1"},
		},
		"sent after a retry and after one that was put off": {
			state: State{Status: Read, Attempt: 3, SentAt: at(70)}, last: at(69), answered: at(70), noted: []Attempt{noted(1, 1, AttemptFailed)},
			want: []string{"1 failed 1", "3 sent 69"},
		},
		"unknown, waits": {
			state: State{Status: Pending, Attempt: 1, BegunAt: at(1)}, last: at(1), noted: []Attempt{noted(1, 1, AttemptUnknown)},
			want: []string{"1 unknown 1 <121"},
		},
		"unknown, proved": {
			state: State{Status: Sent, Attempt: 1, SentAt: at(3)}, last: at(1), noted: []Attempt{noted(1, 1, AttemptUnknown)},
			want: []string{"1 unknown 1"},
		},
		"its process died, proved": {state: State{Status: Sent, Attempt: 1, SentAt: at(3)}, last: at(1), want: []string{"1 unknown 1"}},
		"unknown, resent, under way": {
			state: State{Status: Pending, Attempt: 2, Resent: true, BegunAt: at(125)}, last: at(125), noted: []Attempt{noted(1, 1, AttemptUnknown)},
			want: []string{"1 unknown 1 <125", "2 under_way 125 ! <245"},
		},
		"unknown twice, given up": {
			state: State{Status: Failed, Synthesized: true, Attempt: 2, Resent: true, FailedAt: at(250)}, last: at(125),
			noted: []Attempt{noted(1, 1, AttemptUnknown), noted(2, 125, AttemptUnknown)},
			want:  []string{"1 unknown 1 <125", "2 unknown 125 !"},
		},
		"sent before the times were kept":   {state: State{Status: Sent, Attempt: 1, SentAt: at(2)}, want: []string{"1 sent 2"}},
		"failed before the times were kept": {state: State{Status: Failed, Attempt: 1, FailedAt: at(2)}, want: []string{"1 sent 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := storyRow{Message: Message{State: test.state}, LastBegunAt: test.last, AnsweredAt: test.answered}
			var got []string
			for _, a := range row.attempts(test.noted, 2*time.Minute) {
				line := fmt.Sprint(a.Attempt, " ", a.Outcome, " ", int(a.BegunAt.Sub(start).Seconds()))
				if a.Resend {
					line += " !"
				}
				if a.WaitedUntil != nil {
					line += fmt.Sprint(" <", int(a.WaitedUntil.Sub(start).Seconds()))
				}
				got = append(got, line)
			}
			require.Equal(t, test.want, got)
		})
	}
}

// TestNote_Answered_EndsWithTheAnswer: results wait up to 50 ms to be settled, which is no time of the provider.
func TestNote_Answered_EndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	answered, settled := begun.Add(time.Second), begun.Add(2*time.Second)
	b := &book{now: settled}
	one := &result{Task: &outgoing{}}
	one.Task.BegunAt = &begun
	b.note(one, AttemptUnknown, nil)
	one.Value.at = answered
	b.note(one, AttemptFailed, nil)
	require.Equal(t, []time.Time{settled, answered}, []time.Time{b.attempts[0].EndedAt, b.attempts[1].EndedAt})
}
