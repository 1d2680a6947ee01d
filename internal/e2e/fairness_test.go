package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// replies sends replies one after another, a number of times a second, and returns how long each took
// from the request to the simulator.
func (f *sendFixture) replies(t *testing.T, from sender, key, prefix string, count int, every time.Duration) []time.Duration {
	t.Helper()
	caller, began, people := f.server.client(key), make([]time.Time, count), make([]string, count)
	for i := range people {
		people[i] = fmt.Sprintf("%s%04d", prefix, i)
		f.wrote(t, from, people[i])
	}
	pace := time.NewTicker(every)
	defer pace.Stop()
	for i, phone := range people {
		began[i] = f.reply(t, from, caller, phone)
		<-pace.C
	}
	took := make([]time.Duration, count)
	for i, phone := range people {
		proc.Eventually(t, 2*proc.Patience, "the reply to "+phone, func() bool {
			at, arrived := f.sim.first(phone)
			took[i] = at.Sub(began[i])
			return arrived
		})
	}
	return took
}

// spread prints the quantiles of durations.
func spread(took []time.Duration) string {
	return fmt.Sprintf("p50 %s, p99 %s, most %s", quantile(took, 0.5).Round(time.Millisecond/10), quantile(took, 0.99).Round(time.Millisecond/10),
		quantile(took, 1).Round(time.Millisecond/10))
}

// TestFairness_LargeQueueOfAnOrganization_RepliesOfAnotherNotDelayed: organization A queues 100,000
// messages on 50 numbers. The replies of organization B take at most twice as long as without.
func TestFairness_LargeQueueOfAnOrganization_RepliesOfAnotherNotDelayed(t *testing.T) {
	t.Parallel()
	f, numbers, queued := newSendFixture(t), sized(5, 50), sized(200, 100_000)
	count, every := sized(10, 300), 50*time.Millisecond
	first, second := f.org(t, unlimited), f.org(t, unlimited)
	_, key := f.key(t, second)
	from := f.number(t, second, nil)
	f.replies(t, from, key, "+35193000", 10, every) // warms connections and caches
	quiet := f.replies(t, from, key, "+35193100", count, every)
	t.Logf("quiet:  %s", spread(quiet))

	f.server.stop(t) // all of them are queued before the first is sent
	began := time.Now()
	for n := range numbers {
		f.queue(t, f.number(t, first, nil), fmt.Sprintf("+3519200%02d", n), 200, queued/numbers)
	}
	require.Equal(t, queued, f.waiting(t, first))
	f.analyze(t)
	t.Logf("%d messages on %d numbers queued in %s", queued, numbers, time.Since(began).Round(time.Millisecond))
	f.server.restart(t)
	proc.Eventually(t, proc.Patience, "the queue is being sent", func() bool { return f.waiting(t, first) < queued })
	busy := f.replies(t, from, key, "+35193200", count, every)
	left := f.waiting(t, first)
	t.Logf("beside: %s; %d of the others still wait", spread(busy), left)
	t.Logf("p99 beside the queue / p99 quiet: %.2f", float64(quantile(busy, 0.99))/float64(quantile(quiet, 0.99)))
	if proof.Full() {
		require.Positive(t, left, "the queue was too short")
		require.LessOrEqual(t, quantile(busy, 0.99), 2*quantile(quiet, 0.99))
		return // the rest of the queue would take minutes
	}
	proc.Eventually(t, 3*proc.Patience, "all are sent", func() bool { return f.waiting(t, first) == 0 })
	require.Equal(t, queued, f.count(t, `SELECT count(*) FROM message_states WHERE org_id = $1 AND status = 'sent'`, first))
}

// analyze does what autovacuum does within a minute: the planner still takes the tables for empty.
func (f *sendFixture) analyze(t *testing.T) {
	t.Helper()
	_, err := f.home.DB.Pool().Exec(t.Context(), `ANALYZE`)
	require.NoError(t, err)
}

func (f *sendFixture) waiting(t *testing.T, org orgs.ID) int {
	t.Helper()
	return f.count(t, `SELECT count(*) FROM lane_rows r JOIN lanes l USING (lane_id) WHERE l.org_id = $1`, org)
}

// TestFairness_ReplyBehindItsOwnBulk_Overtakes: the replies of a number do not wait for its queue.
func TestFairness_ReplyBehindItsOwnBulk_Overtakes(t *testing.T) {
	t.Parallel()
	f, queued, count := newSendFixture(t), sized(1_000, 10_000), sized(5, 200)
	org := f.org(t, unlimited)
	_, key := f.key(t, org)
	from := f.number(t, org, nil)
	f.queue(t, from, "+3519400", 500, queued)
	f.analyze(t)
	took := f.replies(t, from, key, "+35195000", count, 100*time.Millisecond)
	left := f.waiting(t, org)
	t.Logf("%d replies behind %d bulk messages of the same number, of which %d still wait: %s", count, queued, left, spread(took))
	bulk := 0
	for _, one := range f.sim.of(from) {
		if strings.HasPrefix(one.to, "+3519500") {
			require.Less(t, bulk, queued, "the reply to %s came after the whole queue", one.to)
		} else {
			bulk++
		}
	}
	if proof.Full() {
		require.Positive(t, left, "the queue was too short")
		require.LessOrEqual(t, quantile(took, 0.99), time.Second)
	}
}

// oneSend is a job for one message, as a queue without lanes would have it.
type oneSend struct {
	To     string `json:"to"`
	Number string `json:"number"`
}

// Kind names the job.
func (oneSend) Kind() string { return "one_send" }

// TestFairness_OneJobPerMessage_Comparison shows what the replies of organization B would wait if each
// message were a job of River: they come after everything that was queued before.
func TestFairness_OneJobPerMessage_Comparison(t *testing.T) {
	t.Parallel()
	sim, queued, workers := newArrivals(t), sized(50, 100_000), sized(8, 128)
	sim.control(t, "accounts", map[string]any{"id": "200000000000001"})
	sim.control(t, "numbers", map[string]any{"id": "100000000000009", "waba_id": "200000000000001", "display_phone_number": "+351200000009"})
	db, now := pgtest.Connect(t, pgtest.URL(t)), clock.NewSynced()
	queue, err := jobs.NewQueue(db, now, canary.Logger(t))
	require.NoError(t, err)
	set := jobs.NewSet()
	set.Queue("one_send", workers, 50*time.Millisecond)
	jobs.Handle(set, func(ctx context.Context, _ int64, args oneSend) error { return sim.send(ctx, args) })
	runner, err := jobs.NewRunner(db, now, canary.Logger(t), set)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	add := func(args ...jobs.Job) {
		_, err := postgres.InSystemTx(t.Context(), db, "test", func(tx *postgres.Tx) ([]int64, error) { return queue.AddTx(t.Context(), tx, args...) })
		require.NoError(t, err)
	}
	reply := func(phone string, patience time.Duration) (took time.Duration, arrived bool) {
		began := time.Now()
		add(jobs.Job{Args: oneSend{To: phone, Number: "100000000000009"}, Queue: "one_send"})
		for ; time.Since(began) < patience; time.Sleep(time.Millisecond) {
			if at, there := sim.first(phone); there {
				return at.Sub(began), true
			}
		}
		return patience, false
	}
	quiet := make([]time.Duration, sized(5, 50))
	for i := range quiet {
		var arrived bool
		quiet[i], arrived = reply(fmt.Sprintf("+35196000%04d", i), proc.Patience)
		require.True(t, arrived)
	}
	for done := 0; done < queued; done += 1_000 {
		many := make([]jobs.Job, min(1_000, queued-done))
		for i := range many {
			many[i] = jobs.Job{Args: oneSend{To: fmt.Sprintf("+35197%07d", done+i), Number: "100000000000009"}, Queue: "one_send"}
		}
		add(many...)
	}
	before := sim.count()
	took, arrived := reply("+351980000001", sized(proc.Patience, 30*time.Second))
	t.Logf("one job per message, %d workers: quiet %s; behind %d jobs %s (arrived: %t; %d of the others were sent meanwhile)",
		workers, spread(quiet), queued, took.Round(time.Millisecond), arrived, sim.count()-before)
}

// send calls the simulator as the product does.
func (a *arrivals) send(ctx context.Context, args oneSend) error {
	body := `{"messaging_product":"whatsapp","recipient_type":"individual","to":"` + args.To + `","type":"text","text":{"body":"Hello"}}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v24.0/"+args.Number+"/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+canary.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return nil
}
