package webhooks_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// fate is the answer to an attempt. It is the same for the same seed, delivery and attempt, so
// that the check knows what was answered. No delivery fails so often that it is given up.
func fate(seed string, r receiver.Request) receiver.Answer {
	if r.Attempt() >= 8 {
		return receiver.Answer{}
	}
	sum := sha256.Sum256([]byte(seed + r.DeliveryID() + r.Header.Get("X-Svc-Attempt")))
	switch luck := sum[0] % 100; {
	case luck < 15:
		return receiver.Answer{Status: 500}
	case luck < 25:
		return receiver.Answer{Status: 404}
	case luck < 30:
		return receiver.Answer{Status: 429, RetryAfter: "9"}
	case luck < 33:
		return receiver.Answer{Status: 302}
	default:
		return receiver.Answer{}
	}
}

// Several customers change at once while the endpoint fails at random. Nothing is lost, and no
// event of a customer is tried before the one before it has arrived.
func TestOrder_RandomFailures_EventsOfACustomerInOrder(t *testing.T) {
	t.Parallel()
	const people, changes = 12, 24
	seed := t.Name()
	s := newFixture(t)
	s.receiver.Answer(func(r receiver.Request) receiver.Answer { return fate(seed, r) })
	var group sync.WaitGroup
	for i := range people {
		group.Go(func() { s.liveThrough(t, fmt.Sprintf("Customer %02d", i), changes) })
	}
	for range 20 {
		s.Pass(t, 200*time.Millisecond)
	}
	group.Wait()
	const all = people * (changes + 2)
	for step := time.Second; s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status <> 'succeeded'`, nil) > 0; {
		s.Pass(t, step)
		s.quiet(t)
		step = min(step*5/4, 10*time.Minute)
		require.Zero(t, s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status = 'dead'`, nil), "none dies")
	}
	require.Len(t, s.receiver.Events(), all)
	requireInOrder(t, s, seed, all)
	failed := s.receiver.Count() - all
	require.Greater(t, failed, all/5, "the endpoint did fail")
	t.Logf("%d events, %d failures", all, failed)
}

// liveThrough creates a customer, renames it the given number of times and archives it.
func (s *fixture) liveThrough(t *testing.T, name string, changes int) {
	t.Helper()
	customer, err := s.Customers.Create(t.Context(), s.org, customers.Draft{Name: name + " 000"})
	if err != nil {
		t.Error(err)
		return
	}
	for i := range changes {
		if _, err = s.Customers.Update(t.Context(), s.org, customer.ID, customers.Patch{Name: to(fmt.Sprintf("%s %03d", name, i+1))}); err != nil {
			t.Error(err)
		}
	}
	if _, err = s.Customers.Archive(t.Context(), s.org, customer.ID); err != nil {
		t.Error(err)
	}
}

// requireInOrder follows each customer through the requests: an event is tried only after
// every earlier one arrived, with the same bytes each time.
func requireInOrder(t *testing.T, s *fixture, seed string, all int) {
	t.Helper()
	arrived, bodies, total := map[string]string{}, map[string][]byte{}, 0
	for _, request := range s.receiver.Requests() {
		customer := customerOf(t, request)
		now := strings.TrimPrefix(customer.Name, customer.Name[:12]) + customer.Status
		if last, seen := arrived[customer.ID]; seen {
			require.Equal(t, follows(last), now, "%s after %s", customer.Name, last)
		} else {
			require.Equal(t, "000pending", now, "the first is the creation")
		}
		if first, seen := bodies[request.EventUID()]; seen {
			require.Equal(t, first, request.Body)
		}
		bodies[request.EventUID()] = request.Body
		if status := fate(seed, request).Status; status == 0 {
			arrived[customer.ID] = now
			total++
		}
	}
	require.Equal(t, all, total, "each arrived once")
	for id, last := range arrived {
		require.Equal(t, "024archived", last, id)
	}
}

// follows is the only state that may come after a state.
func follows(state string) string {
	if state == "024pending" {
		return "024archived"
	}
	var number int
	_, _ = fmt.Sscanf(state, "%dpending", &number)
	return fmt.Sprintf("%03dpending", number+1)
}

// While the first event of a customer fails, its later events are held and those of other
// customers arrive.
func TestOrder_FailingCustomer_OthersGoOn(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.customers(t, 2)
	s.awaitCount(t, webhooks.Succeeded, 2)
	s.receiver.Answer(func(r receiver.Request) receiver.Answer {
		if customerOf(t, r).ID == made[0].ID.String() {
			return receiver.Answer{Status: 500}
		}
		return receiver.Answer{}
	})
	for i := range 5 {
		s.Clock.Move(time.Millisecond)
		for _, customer := range made {
			s.rename(t, customer, fmt.Sprint(i))
		}
	}
	s.Pass(t, 10*time.Millisecond)
	s.awaitCount(t, webhooks.Succeeded, 7)
	s.rest(t)
	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status = 'failed'`, nil))
	require.Equal(t, 4, s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status = 'pending'`, nil))
	s.receiver.Answer(receiver.Always(receiver.Answer{}))
	s.Pass(t, time.Minute)
	s.awaitCount(t, webhooks.Succeeded, 12)
	var names []string
	for _, request := range s.receiver.Requests()[2:] {
		if customer := customerOf(t, request); customer.ID == made[0].ID.String() {
			names = append(names, customer.Name)
		}
	}
	require.Equal(t, []string{"0", "0", "1", "2", "3", "4"}, names)
}
