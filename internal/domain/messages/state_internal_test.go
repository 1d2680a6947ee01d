package messages

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// step is something that the provider says of a message: a callback, or the answer to an attempt.
type step struct {
	callback

	answer bool
}

// history is a message before its callbacks, and what the provider says of it in any order.
type history struct {
	start State
	steps []step
}

func at(seconds int) time.Time { return time.Unix(1_773_480_000+int64(seconds), 0).UTC() }

// idOf is the provider's id of an attempt. The id of the later attempt sorts first in half of the
// messages.
func idOf(attempt int, swapped bool) string {
	if swapped {
		attempt = 9 - attempt
	}
	return fmt.Sprintf("wamid.%d", attempt)
}

func randomFailure(r *rand.Rand) *provider.Error {
	failures := []*provider.Error{
		nil,
		{Code: fault.UpstreamError, Title: "no code"},
		{Code: provider.AuthExpired, Title: "zero", ProviderCode: new(0)},
		{Code: provider.OutsideWindow, Title: "window", ProviderCode: new(131047)},
		{Code: provider.Undeliverable, Title: "undeliverable", ProviderCode: new(131026)},
		{Code: provider.Undeliverable, Title: "other words", ProviderCode: new(131026)},
	}
	return failures[r.IntN(len(failures))]
}

func randomHistory(r *rand.Rand) history {
	first := 1 + r.IntN(3)
	begun := at(0)
	h := history{start: State{Status: Pending, Attempt: first + r.IntN(2), Resent: true, BegunAt: &begun}}
	swapped := r.IntN(2) == 0
	if r.IntN(3) == 0 {
		h.start.fail(fault.UpstreamError, "The provider did not say.", nil, at(r.IntN(10)))
		h.start.announce(announcedSynthesized)
	}
	known := []string{
		provider.StatusSent, provider.StatusDelivered, provider.StatusRead, provider.StatusPlayed, provider.StatusFailed, "new status",
	}
	for range 1 + r.IntN(6) {
		attempt := first + r.IntN(h.start.Attempt-first+1)
		one := step{callback: callback{Attempt: attempt, ProviderID: idOf(attempt, swapped), At: at(r.IntN(5))}}
		one.Status = known[r.IntN(len(known))]
		switch {
		case one.Status == provider.StatusFailed:
			one.Error = randomFailure(r)
		case r.IntN(6) == 0:
			one.answer = true
		}
		h.steps = append(h.steps, one)
		for r.IntN(3) == 0 { // the provider repeats callbacks, sometimes without our reference
			again := one
			if r.IntN(2) == 0 && !again.answer {
				again.Attempt = 0
			}
			h.steps = append(h.steps, again)
		}
	}
	return h
}

// run applies steps in their order, and checks each change. A callback without a reference waits
// until the provider's id is known.
func (h history) run(t *testing.T, steps []step) (State, []string) {
	t.Helper()
	state, events := h.start, []string(nil)
	var parked []step
	apply := func(one step) {
		before := state
		if one.answer {
			state.accepted(one.ProviderID, one.Attempt, one.At)
		} else if state.apply(one.callback) {
			events = append(events, one.Status)
		}
		wentBack := !before.Synthesized && state.Status.rank() < before.Status.rank()
		explained := state.ErrorCode != nil && state.ErrorMessage != nil && state.FailedAt != nil
		if wentBack || state.Synthesized || state.BegunAt != nil || explained != (state.Status == Failed) {
			require.Fail(t, "wrong state", "%+v\nafter %+v\nof %+v", state, one, before)
		}
	}
	knows := func(id string) bool {
		return state.ProviderID != nil && *state.ProviderID == id || state.SecondProviderID != nil && *state.SecondProviderID == id
	}
	for _, one := range steps {
		if one.Attempt == 0 && !one.answer && !knows(one.ProviderID) {
			parked = append(parked, one)
			continue
		}
		apply(one)
		for _, waiting := range parked {
			if knows(waiting.ProviderID) {
				apply(waiting)
			}
		}
		parked = slices.DeleteFunc(parked, func(waiting step) bool { return knows(waiting.ProviderID) })
	}
	slices.Sort(events)
	if len(parked) > 0 || len(slices.Compact(slices.Clone(events))) != len(events) {
		require.Fail(t, "no event, or two of one status", "%v, parked %v", events, parked)
	}
	return state, events
}

func TestState_CallbacksInAnyOrder_SameStateAndEvents(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range proof.Sized(300, 5000) {
		h := randomHistory(r)
		state, events := h.run(t, h.steps)
		for range proof.Sized(50, 100) {
			shuffled := slices.Clone(h.steps)
			r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			other, otherEvents := h.run(t, shuffled)
			if !reflect.DeepEqual(state, other) || !slices.Equal(events, otherEvents) {
				require.Equal(t, state, other, "%+v\n%+v", h.steps, shuffled)
				require.Equal(t, events, otherEvents, "%+v", shuffled)
			}
		}
	}
}

// TestResource_Times_InTheOrderOfTheStatuses: the provider's times are whole seconds, ours are not. A time that is shown is
// that of the state, or that of the status before it if the state's is earlier.
func TestResource_Times_InTheOrderOfTheStatuses(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 2_000 {
		h := randomHistory(r)
		for i := range h.steps {
			if h.steps[i].answer {
				h.steps[i].At = h.steps[i].At.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
			}
		}
		state, _ := h.run(t, h.steps)
		made := at(0).Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		message := Message{Said: Said{ID: ids.New[kind](made), Direction: Outbound, Source: FromAPI}, State: state}
		shown := message.Resource(accounts.Account{}).fields
		last := time.Time(shown.CreatedAt)
		for _, one := range []struct {
			shown  *clock.Stamp
			stored *time.Time
			// before says that the times behind this one follow it.
			before bool
		}{
			{shown.SentAt, state.SentAt, true},
			{shown.DeliveredAt, state.DeliveredAt, true},
			{shown.ReadAt, state.ReadAt, false},
			{shown.PlayedAt, state.PlayedAt, false},
			{shown.FailedAt, state.FailedAt, false},
		} {
			if one.stored == nil {
				require.Nil(t, one.shown)
				continue
			}
			want := *one.stored
			if want.Before(last) {
				want = last
			}
			require.Equal(t, want.String(), time.Time(*one.shown).String(), "%+v", state)
			if one.before {
				last = want
			}
		}
	}
}

func TestState_OwnFailure_SupersededByEveryProof(t *testing.T) {
	t.Parallel()
	proofs := map[string]func(s *State){"answer": func(s *State) { s.accepted("wamid.1", 1, at(5)) }}
	for _, status := range []string{provider.StatusSent, provider.StatusDelivered, provider.StatusRead, provider.StatusPlayed, "new"} {
		proofs[status] = func(s *State) { s.apply(callback{Attempt: 1, ProviderID: "wamid.1", Status: status, At: at(5)}) }
	}
	for name, proof := range proofs {
		state := State{Status: Pending, Attempt: 2}
		state.fail(fault.UpstreamError, "words", new(131000), at(1))
		proof(&state)
		require.NotEqual(t, Failed, state.Status, name)
		require.False(t, state.Synthesized, name)
		require.Equal(t, []any{(*fault.Code)(nil), (*string)(nil), (*int)(nil), (*time.Time)(nil)},
			[]any{state.ErrorCode, state.ErrorMessage, state.ProviderCode, state.FailedAt}, name)
		require.Equal(t, at(5), *state.SentAt, name)
	}
}

func TestState_FailedCallback_IsFinal(t *testing.T) {
	t.Parallel()
	state := State{Status: Pending, Attempt: 1}
	failed := callback{Attempt: 1, ProviderID: "wamid.1", Status: provider.StatusFailed, At: at(2), Error: &provider.Error{
		Code: provider.OutsideWindow, Title: "window", ProviderCode: new(131047),
	}}
	require.True(t, state.apply(failed))
	require.True(t, state.apply(callback{Attempt: 1, ProviderID: "wamid.1", Status: provider.StatusRead, At: at(3)}))
	require.False(t, state.apply(failed))
	require.Equal(t, Failed, state.Status)
	require.Equal(t, provider.OutsideWindow, *state.ErrorCode)
	require.Equal(t, at(3), *state.ReadAt)
}

func TestState_TwoCopies_IDOfEarlierAttemptFirst(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{3, 4}, {4, 3}} {
		state := State{Status: Pending, Attempt: 4, Resent: true}
		for _, attempt := range order {
			state.apply(callback{Attempt: attempt, ProviderID: idOf(attempt, false), Status: provider.StatusSent, At: at(attempt)})
		}
		require.Equal(t, "wamid.3", *state.ProviderID)
		require.Equal(t, "wamid.4", *state.SecondProviderID)
	}
}
