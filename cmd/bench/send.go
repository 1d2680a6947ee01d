package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	sendNumbers  = 20
	sendQueued   = 10_000
	sendJobs     = 30_000
	acceptAtOnce = 500
	slowProvider = 100 * time.Millisecond
)

// The sides that are compared.
const (
	answersLate  = "after 100 ms"
	simulated    = "simulator"
	withAll      = "with all"
	bareRiverNow = "river"
)

// benchSend measures how many queued messages become sent per second, of 20 numbers and to different
// people, until the last is settled. The provider answers at once (per_second, and ratio against bare
// River's jobs that do nothing), or after 100 ms (per_second_100ms).
func benchSend(ctx context.Context, b *bench) figures {
	beside, total := newDraining(ctx, b, false), b.many(sendQueued)
	fixed := func(name string, answersAfter time.Duration) side {
		return side{name, func(ctx context.Context, b *bench) sample {
			network := (&fixedProvider{answersAfter: answersAfter}).open(ctx, b)
			return newSending(ctx, b, network.url, total).sent(ctx, b, &network.counter, func() {})
		}}
	}
	shown := b.inTurn(ctx, "rate", fixed(ours, 0), fixed(answersLate, slowProvider), beside.riverSide(bareRiverNow, sendJobs))
	return figures{
		perSecond: shown.median(ours, rate), "per_second_100ms": shown.median(answersLate, rate),
		"ratio": shown.ratio(ours, bareRiverNow, rate), "river_per_second": shown.median(bareRiverNow, rate),
	}
}

// benchSendSimulator measures the same through the simulator, against bare River (simulator). With all,
// the simulator posts three statuses of each message, and a subscription gets the four events of each:
// with_all is queued to sent, with_all_complete until the last event is delivered.
func benchSendSimulator(ctx context.Context, b *bench) figures {
	const completed = "with all, complete"
	beside, total := newDraining(ctx, b, false), b.many(sendQueued)
	var complete []sample
	shown := b.inTurn(ctx, "simulator",
		side{simulated, func(ctx context.Context, b *bench) sample {
			network := openSimulated(ctx, b, true)
			return newSending(ctx, b, network.url, total).sent(ctx, b, &network.counter, func() {})
		}},
		side{withAll, func(ctx context.Context, b *bench) sample {
			sent, all := sendWithAll(ctx, b, total)
			complete = append(complete, all)
			return sent
		}},
		beside.riverSide(bareRiverNow, sendJobs))
	shown[completed] = complete
	return figures{
		"simulator": shown.ratio(simulated, bareRiverNow, rate), "simulator_per_second": shown.median(simulated, rate),
		"with_all": shown.ratio(withAll, bareRiverNow, rate), "with_all_per_second": shown.median(withAll, rate),
		"with_all_complete": shown.ratio(completed, bareRiverNow, rate), "with_all_complete_per_second": shown.median(completed, rate),
	}
}

// sending is a process with numbers whose messages are queued until it runs.
type sending struct {
	*process

	numbers []accounts.Account
	queued  int
	serial  atomic.Int64
}

// newSending queues messages evenly over the numbers.
func newSending(ctx context.Context, b *bench, network string, queued int) *sending {
	s := &sending{process: newProcessWith(ctx, b, setup{cells: 1, organizations: 1, provider: network})}
	for n := range sendNumbers {
		s.numbers = append(s.numbers, must(attach(ctx, s.cell, s.orgs[0], n)))
	}
	check(times(fillClients, sendNumbers, func(n int) error { return s.queue(ctx, s.numbers[n], queued/sendNumbers) }))
	s.queued = queued / sendNumbers * sendNumbers
	must(s.cell.DB.Pool().Exec(ctx, `ANALYZE`))
	return s
}

// queue accepts messages of a number to as many people.
func (s *sending) queue(ctx context.Context, from accounts.Account, count int) error {
	text, err := content.Parse(provider.TypeText, json.RawMessage(fmt.Sprintf(`{"body":%q}`, messageText)))
	for ; count > 0 && err == nil; count -= acceptAtOnce {
		drafts := make([]messages.Draft, min(count, acceptAtOnce))
		for i := range drafts {
			drafts[i] = messages.Draft{To: s.recipient(), Content: text, Source: messages.FromAPI}
		}
		_, err = postgres.InTx(ctx, s.cell.DB, s.orgs[0], func(tx *postgres.Tx) (int, error) {
			answers, err := s.cell.Messages.AcceptManyTx(ctx, tx, from, messages.Terms{}, drafts)
			for _, answer := range answers {
				if err == nil && answer.Refusal != nil {
					err = answer.Refusal
				}
			}
			return 0, err
		})
	}
	return err
}

// recipient is a number that had no message yet.
func (s *sending) recipient() string { return fmt.Sprintf("+35191%07d", s.serial.Add(1)) }

// sent runs the process and returns how many messages per second became sent and were settled. The
// first tenth is left out: it opens connections and prepares statements. Ready is called when the
// process runs. In a profile this phase is labelled, because queueing may take longer.
func (s *sending) sent(ctx context.Context, b *bench, calls *counter, ready func()) (shown sample) {
	pprof.Do(ctx, pprof.Labels("phase", "send"), func(ctx context.Context) {
		s.run(ctx, b, app.Roles{Serve: true, Work: true})
		ready()
		calls.await(ctx, s.queued/10)
		before, started := calls.count.Load(), time.Now()
		calls.await(ctx, s.queued)
		s.awaitSettled(ctx, calls)
		shown.rate = float64(int64(s.queued)-before) / time.Since(started).Seconds()
	})
	return shown
}

// awaitSettled returns when no message waits in a lane, and checks that all were sent, once.
func (s *sending) awaitSettled(ctx context.Context, calls *counter) {
	lanes := postgres.Each(s.numbers, func(number accounts.Account) ids.Any { return number.ID.Any() })
	for busy := true; busy; time.Sleep(time.Millisecond) {
		busy = must(postgres.One[bool](ctx, s.cell.DB.System("whether all is settled"),
			`SELECT EXISTS (SELECT FROM lane_rows WHERE lane_id = ANY (@lanes))`, postgres.Args{"lanes": lanes}))
	}
	unsent := must(postgres.One[int](ctx, s.cell.DB.System("whether all is sent"),
		`SELECT count(*)::int FROM message_states WHERE provider_id IS NULL`, nil))
	if unsent > 0 || calls.count.Load() != int64(s.queued) {
		check(fmt.Errorf("%d of %d messages were not sent, by %d calls", unsent, s.queued, calls.count.Load()))
	}
}

var errNoID = errors.New("the answer has no id of a message")
