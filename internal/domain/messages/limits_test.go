package messages_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// newNetworkFixture sends to the simulator instead of a script.
func newNetworkFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{World: factory.New(t)}
	s.Network.Control(t, "settings", map[string]any{"silent": true})
	s.Work(t)
	return s.besideOnNetwork(t)
}

// besideOnNetwork is a fixture of another organization, with a number that the simulator knows.
func (s *fixture) besideOnNetwork(t *testing.T) *fixture {
	t.Helper()
	other := *s
	other.org, _ = s.World.Org(t)
	other.account = s.networkAccount(t, other.org)
	return &other
}

func (s *fixture) networkAccount(t *testing.T, org orgs.ID) accounts.Account {
	t.Helper()
	account := s.Account(t, org)
	s.Network.Number(t, account.BusinessAccountID, *account.PhoneNumberID, map[string]any{"display_phone_number": *account.PhoneNumber})
	return account
}

// accepted counts the sends to a number that the simulator accepted from the fixture's account.
func (s *fixture) accepted(t *testing.T, to string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		s.Network.URL+"/sim/sent?to=%2B"+to[1:]+"&phone_number_id="+*s.account.PhoneNumberID, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var body struct{ Data []json.RawMessage }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&body))
	return len(body.Data)
}

// awaitAttempt waits until an attempt that did not succeed was noted.
func (s *fixture) awaitAttempt(t *testing.T, of messages.Message, noted string) {
	t.Helper()
	s.await(t, "the attempt of "+of.ID.String(), func() bool { return len(s.attempts(t, of)) > 0 })
	require.Equal(t, []string{noted}, s.attempts(t, of))
}

const (
	limitedContact = "+351910000001"
	otherContact   = "+351910000002"
)

// TestRateLimit_EachCode_OnlyItsPairOrLaneWaits has the simulator refuse one send. Afterwards each
// organization sends to the same contact, to another contact, and from another number.
func TestRateLimit_EachCode_OnlyItsPairOrLaneWaits(t *testing.T) {
	t.Parallel()
	s := newNetworkFixture(t)
	type limited struct {
		*fixture
		sibling             *fixture
		pair, lane          bool
		first, same, beside messages.Message
	}
	var cases []*limited
	for _, test := range []struct {
		outcome    map[string]any
		noted      string
		pair, lane bool
	}{
		{map[string]any{"sync_code": 131056}, "1 failed 131056", true, false},
		{map[string]any{"sync_code": 130429}, "1 failed 130429", false, true},
		{map[string]any{"sync_code": 80007}, "1 failed 80007", false, true},
		{map[string]any{"sync_code": 80008}, "1 failed 80008", false, true},
		{map[string]any{"sync_code": 4}, "1 failed 4", false, true},
		{map[string]any{"sync_code": 613}, "1 failed 613", false, true},
		{map[string]any{"http_status": 429}, "1 failed 4", false, true},
		{map[string]any{"sync_code": 132069}, "1 failed 132069", false, false},
		{map[string]any{"sync_code": 131000}, "1 failed 131000", false, false},
	} {
		of := s.besideOnNetwork(t)
		sibling := *of
		sibling.account = s.networkAccount(t, of.org)
		s.Network.Control(t, "script", map[string]any{
			"match":   map[string]any{"to": limitedContact, "phone_number_id": *of.account.PhoneNumberID},
			"outcome": test.outcome, "times": 1,
		})
		one := &limited{fixture: of, sibling: &sibling, pair: test.pair, lane: test.lane, first: of.send(t, limitedContact)}
		of.awaitAttempt(t, one.first, test.noted)
		require.Equal(t, messages.Pending, of.get(t, one.first).Status)
		cases = append(cases, one)
	}
	for _, one := range cases {
		one.same, one.beside = one.send(t, limitedContact), one.send(t, otherContact)
		sibling := one.sibling.send(t, limitedContact)
		one.sibling.awaitStatus(t, sibling, messages.Sent)
		if !one.lane {
			one.awaitStatus(t, one.beside, messages.Sent)
		}
		if !one.lane && !one.pair {
			one.awaitStatus(t, one.same, messages.Sent)
		}
	}
	for _, one := range cases {
		require.Equal(t, one.lane, one.accepted(t, otherContact) == 0, "%v", one.attempts(t, one.first))
		require.Equal(t, one.lane || one.pair, one.accepted(t, limitedContact) == 0, "%v", one.attempts(t, one.first))
	}
	s.Pass(t, 6*time.Second)
	for _, one := range cases {
		one.awaitStatus(t, one.beside, messages.Sent)
		one.awaitStatus(t, one.same, messages.Sent)
		require.Equal(t, messages.Pending, one.get(t, one.first).Status, "a retry comes after a minute")
	}
	s.Pass(t, 67*time.Second)
	for _, one := range cases {
		one.awaitStatus(t, one.first, messages.Sent)
		require.Equal(t, 2, one.accepted(t, limitedContact))
	}
}

// TestRateLimit_LaneBlocked_QueueUntouchedThenSent: a blocked lane calls nothing, however much is queued.
func TestRateLimit_LaneBlocked_QueueUntouchedThenSent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 130429)))
	first := s.send(t, limitedContact)
	s.awaitCalls(t, first, 1)
	s.net.answers(nil)
	var queued []messages.Message
	for range 30 {
		queued = append(queued, s.send(t, otherContact))
	}
	sibling := *s
	sibling.account = s.Account(t, s.org)
	sibling.barrier(t)
	s.Pass(t, 4*time.Second)
	sibling.barrier(t)
	require.Empty(t, s.net.calls(otherContact))
	s.Pass(t, 2*time.Second)
	for _, one := range queued {
		s.awaitStatus(t, one, messages.Sent)
	}
	for i, call := range s.net.calls(otherContact) {
		// On a slow machine a begun attempt is too old to be called, and the next one is.
		require.Contains(t, call.Reference, queued[i].ID.String()+":", "in their order")
	}
}

// pairWaits is how often in a row a pair was refused.
func (s *fixture) pairWaits(t *testing.T) int {
	t.Helper()
	return s.count(t, `SELECT coalesce(max(waits), 0) FROM send_pairs WHERE org_id = @org_id AND account_id = @account`,
		postgres.Args{"account": s.account.ID})
}

// TestPairLimit_InARow_EachHoldsFourTimesAsLong: the refusals of a pair hold its other messages for 1,
// 4, 16 and 64 seconds. An accepted message starts the count again.
func TestPairLimit_InARow_EachHoldsFourTimesAsLong(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131056)))
	s.awaitCalls(t, s.send(t, limitedContact), 1)
	calls := 1
	for n, hold := range []time.Duration{time.Second, 4 * time.Second, 16 * time.Second, 64 * time.Second} {
		require.Equal(t, n+1, s.pairWaits(t))
		next := s.send(t, limitedContact)
		s.Pass(t, hold-100*time.Millisecond)
		s.barrier(t)
		require.Len(t, s.net.calls(limitedContact), calls, "held for %s", hold)
		if n == 3 { // the first messages are due again, too
			s.net.answers(nil)
			s.Pass(t, time.Second)
			s.awaitStatus(t, next, messages.Sent)
			break
		}
		s.Pass(t, 200*time.Millisecond)
		calls++
		s.awaitCalls(t, next, calls)
	}
	s.await(t, "the pair is forgotten", func() bool { return s.pairWaits(t) == 0 })
	s.Pass(t, 10*time.Minute)
	s.await(t, "all are sent", func() bool {
		return s.count(t, `SELECT count(*) FROM message_states WHERE org_id = @org_id AND status <> 'sent'`, nil) == 0
	})

	s.net.answers(refuses(s.failure(t, 131056)))
	again := s.send(t, limitedContact)
	s.await(t, "it is refused", func() bool { return len(s.attempts(t, again)) == 1 })
	s.net.answers(nil)
	last := s.send(t, limitedContact)
	s.Pass(t, 1100*time.Millisecond)
	s.awaitStatus(t, last, messages.Sent)
}

// TestPairLimit_OfOneNumber_OtherNumbersGoOn: the pair is the number and the contact.
func TestPairLimit_OfOneNumber_OtherNumbersGoOn(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(func(out provider.Outbound) (provider.Accepted, error) {
		if out.To == limitedContact {
			return provider.Accepted{}, s.failure(t, 131056)
		}
		return accepted(out)
	})
	s.awaitCalls(t, s.send(t, limitedContact), 1)
	var queued []messages.Message
	for range 5 {
		queued = append(queued, s.send(t, limitedContact))
	}
	s.awaitStatus(t, s.send(t, otherContact), messages.Sent)
	s.net.answers(nil)
	sibling := *s
	sibling.account = s.Account(t, s.org)
	sibling.awaitStatus(t, sibling.send(t, limitedContact), messages.Sent)
	require.Len(t, s.net.calls(limitedContact), 2, "the refused one and that of the other number")
	s.Pass(t, 1100*time.Millisecond)
	for _, one := range queued { // none waits behind another once one was accepted
		s.awaitStatus(t, one, messages.Sent)
	}
}
