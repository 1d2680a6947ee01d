package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

const (
	quotaProcesses = 4
	quotaClients   = 32
	quotaContacts  = 200
)

// quotaFixture is an organization that has used 85 % of its month, and processes that serve the API.
// The messages that it sent before are stored, so that a recount finds them.
type quotaFixture struct {
	*fixture

	org     orgs.ID
	number  string
	month   time.Time
	limit   int
	left    int
	servers []*server
	key     string
}

func newQuotaFixture(t *testing.T) *quotaFixture {
	t.Helper()
	f := &quotaFixture{fixture: newFixture(t), limit: sized(4_000, 20_000)}
	f.left = f.limit * 15 / 100
	f.exec(t, `INSERT INTO plans VALUES ('limited', true, true, $1, 1000, 1000000, 365)`, f.limit)
	f.org = f.fixture.org(t, "limited")
	f.number = f.fixture.number(t, f.org, 1)
	_, f.key = f.fixture.key(t, f.org)
	now := time.Now().UTC()
	f.month = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	f.exec(t, `
INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source)
SELECT a.org_id, ulid(greatest($2::timestamptz, now() - interval '1 hour')), a.id, a.id, a.id, 'outbound', 'text', 'api'
FROM accounts a, generate_series(1, $3::int)
WHERE a.org_id = $1`, f.org, f.month, f.limit-f.left)
	f.exec(t, `INSERT INTO quota_usage (org_id, month, used, due_at) VALUES ($1, $2, $3, now() + interval '1 day')`,
		f.org, f.month, f.limit-f.left)
	for range quotaProcesses {
		f.servers = append(f.servers, f.launch(t, proc.Settings{"PARLEY_CELLS": "main"}))
	}
	for _, s := range f.servers {
		s.waitReady(t)
	}
	return f
}

// quotaTally counts answers to sends.
type quotaTally struct{ accepted, exceeded, lost atomic.Int64 }

// send sends a number of messages with many clients. A request whose process died is sent again to
// another process.
func (f *quotaFixture) send(t *testing.T, count int, tally *quotaTally) {
	t.Helper()
	callers := make([]*client, len(f.servers))
	for i, s := range f.servers {
		callers[i] = s.client(f.key)
	}
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, quotaClients)
	for worker := range quotaClients {
		all.Go(func() {
			for n := next.Add(1); n <= int64(count); n = next.Add(1) {
				if err := f.sendOne(t.Context(), callers, worker, int(n), tally); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	require.NoError(t, <-failed)
}

func (f *quotaFixture) sendOne(ctx context.Context, callers []*client, worker, n int, tally *quotaTally) error {
	sent := call{method: http.MethodPost, path: "/" + f.number + "/messages", body: fmt.Sprintf(
		`{"messaging_product":"chat","to":"+35191%07d","type":"text","text":{"body":"Hello"}}`, n%quotaContacts)}
	for try := range 100 {
		got, err := callers[(worker+try)%len(callers)].do(ctx, sent)
		switch {
		case err != nil:
			tally.lost.Add(1)
			time.Sleep(10 * time.Millisecond)
			continue
		case got.status == http.StatusAccepted:
			tally.accepted.Add(1)
		case got.status == http.StatusPaymentRequired && got.code() == "quota_exceeded":
			tally.exceeded.Add(1)
		default:
			return fmt.Errorf("%d %s", got.status, got.body)
		}
		return nil
	}
	return fmt.Errorf("message %d: no process answers", n)
}

func (f *quotaFixture) stored(t *testing.T) int {
	t.Helper()
	return f.count(t, `SELECT count(*) FROM messages WHERE org_id = $1`, f.org)
}

func (f *quotaFixture) used(t *testing.T) int {
	t.Helper()
	return f.count(t, `SELECT used FROM quota_usage WHERE org_id = $1 AND month = $2`, f.org, f.month)
}

// recount does what the daily job does, as if two minutes had passed: it does not count the messages of
// the last minute.
func (f *quotaFixture) recount(t *testing.T) int {
	t.Helper()
	db, later := pgtest.Connect(t, f.databaseURL), clock.NewManual(time.Now().Add(2*time.Minute))
	home, err := cell.New(cell.Deps{Name: "main", DB: db, Clock: later, Directory: directory.New(db, later), Logger: canary.Logger(t)})
	require.NoError(t, err)
	missing, err := home.Quota.Recount(t.Context(), f.org, f.month)
	require.NoError(t, err)
	return int(missing)
}

// TestQuota_FourProcesses_ExactlyTheRestAccepted sends twice as many messages as are left.
func TestQuota_FourProcesses_ExactlyTheRestAccepted(t *testing.T) {
	t.Parallel()
	f := newQuotaFixture(t)
	var tally quotaTally
	began := time.Now()
	f.send(t, 2*f.left, &tally)
	t.Logf("limit %d, %d left, %d processes, %d sends in %s: %d accepted, %d quota_exceeded", f.limit, f.left, quotaProcesses, 2*f.left,
		time.Since(began).Round(time.Millisecond), tally.accepted.Load(), tally.exceeded.Load())
	require.EqualValues(t, f.left, tally.accepted.Load())
	require.EqualValues(t, f.left, tally.exceeded.Load())
	require.Equal(t, f.limit, f.stored(t))
	proc.Eventually(t, proc.Patience, "the row has the limit", func() bool { return f.used(t) == f.limit })
	require.Zero(t, f.recount(t))
}

// TestQuota_TwoProcessesKilled_OverByAtMostTheirAllowances kills processes while they count in memory.
func TestQuota_TwoProcessesKilled_OverByAtMostTheirAllowances(t *testing.T) {
	t.Parallel()
	f := newQuotaFixture(t)
	allowance, before := f.limit/200, f.stored(t)
	var tally quotaTally
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for i := range 2 { // the first third of the rest is counted in memory
			for int(tally.accepted.Load()) < f.left*(i+1)/10 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			f.servers[i].Kill()
		}
	}()
	f.send(t, 2*f.left, &tally)
	<-killed
	stored := f.stored(t)
	over, used := stored-f.limit, f.used(t)
	t.Logf("limit %d, %d left, 2 of %d processes killed, %d sends: %d answered with 202 and %d requests lost; %d stored, %d over the limit"+
		" (at most %d); counted before the recount: %d", f.limit, f.left, quotaProcesses, 2*f.left, tally.accepted.Load(), tally.lost.Load(),
		stored-before, over, 2*allowance, used)
	require.LessOrEqual(t, over, 2*allowance)
	require.GreaterOrEqual(t, stored-before, int(tally.accepted.Load()), "every 202 is stored")
	missing := f.recount(t)
	t.Logf("the recount found %d missing: %d are counted of %d stored", missing, f.used(t), stored)
	// A killed process may have reserved for requests that it did not store.
	require.GreaterOrEqual(t, f.used(t), max(stored, f.limit))
	require.LessOrEqual(t, f.used(t)-stored, 2*quotaClients)
	got, err := f.servers[3].client(f.key).do(t.Context(), call{
		method: http.MethodPost, path: "/" + f.number + "/messages",
		body: `{"messaging_product":"chat","to":"+351910000001","type":"text","text":{"body":"Hello"}}`,
	})
	require.NoError(t, err)
	require.Equal(t, "quota_exceeded", got.code(), "%s", got.body)
}
