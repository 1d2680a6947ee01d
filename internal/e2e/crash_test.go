package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// burst is how many requests are under way when a process is killed.
const burst = 20

// How often a process is killed: with an answer on its way, in either of two places, and in a burst
// after each number of answers.
var (
	lostAnswers = sized(4, 15)
	bursts      = sized(burst, 30)
)

// committed waits until the answer of a key is durable.
func (w *world) committed(t *testing.T, key string) {
	t.Helper()
	proc.Eventually(t, proc.Patience, "the commit of "+key, func() bool {
		return w.count(t, `SELECT count(*) FROM idempotency_keys WHERE key = $1`, key) == 1
	})
}

// repeated sends a request whose answer was lost again, twice, and returns the answer.
func (w *world) repeated(t *testing.T, org orgs.ID, caller *client, name string) answer {
	t.Helper()
	first, err := caller.create(t.Context(), name, name)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, first.status, "%s", first.body)
	require.Equal(t, "true", first.header.Get("Idempotent-Replayed"))
	require.Equal(t, name, first.data(t)["name"])
	second, err := caller.create(t.Context(), name, name)
	require.NoError(t, err)
	require.Equal(t, string(first.body), string(second.body))
	require.Equal(t, first.header.Get("X-Request-Id"), second.header.Get("X-Request-Id"))
	require.Equal(t, 1, w.count(t, `SELECT count(*) FROM labels WHERE org_id = $1 AND name = $2`, org.String(), name))
	return first
}

// The process wrote its answer, and it died on the way.
func TestAnAnswerLostInACrashIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.org(t, unlimited)
	_, key := w.key(t, org)
	server := w.serve(t, nil)
	lossy := proc.NewProxy(t, server.api)
	lossy.Mute(true)
	direct, started, compared := server.client(key), time.Now(), 0
	for round := range lostAnswers {
		name := fmt.Sprintf("lost-%d", round)
		deaf := &client{base: "http://" + lossy.Address + "/v1", key: key, http: newHTTP()}
		lost := make(chan error, 1)
		go func() {
			_, err := deaf.create(t.Context(), name, name)
			lost <- err
		}()
		w.committed(t, name)
		server.Kill()
		require.Error(t, <-lost, "no answer may come through")
		swallowed := lossy.Swallowed()
		server.restart(t)
		first := w.repeated(t, org, direct, name)
		if bytes.HasSuffix(swallowed, []byte("}\n")) { // it was written in full before the kill
			compared++
			require.True(t, bytes.HasSuffix(swallowed, first.body), "swallowed %s, repeated %s", swallowed, first.body)
		}
	}
	t.Logf("%d kills in %s; in %d the lost answer had been written and equals the repeated one", lostAnswers, time.Since(started), compared)
}

// The process never learned that its commit went through.
func TestACommitThatWasNeverConfirmedIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.org(t, unlimited)
	_, key := w.key(t, org)
	database := proc.NewProxy(t, w.databaseAddress(t))
	server := w.serve(t, w.through(t, database))
	direct, started := server.client(key), time.Now()
	for round := range lostAnswers {
		name := fmt.Sprintf("unconfirmed-%d", round)
		database.MuteAfter("commit\x00")
		lost := make(chan error, 1)
		go func() {
			_, err := direct.create(t.Context(), name, name)
			lost <- err
		}()
		w.committed(t, name)
		require.Empty(t, lost, "the process cannot know yet")
		server.Kill()
		require.Error(t, <-lost)
		database.MuteAfter("")
		server.restart(t)
		w.repeated(t, org, direct, name)
	}
	t.Logf("%d kills in %s, each after the commit and before the process knew of it", lostAnswers, time.Since(started))
}

// tally counts what became of the requests of a burst.
type tally struct{ acknowledged, durable, never int }

func TestABurstCutByACrashHappensOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.org(t, unlimited)
	_, key := w.key(t, org)
	server := w.serve(t, nil)
	started, caller, total := time.Now(), server.client(key), tally{}
	for round := range bursts {
		prefix := fmt.Sprintf("burst-%d", round)
		answers, arrived := make(chan [burst]*answer, 1), make(chan struct{}, burst)
		go func() { answers <- acknowledge(t.Context(), caller, prefix, arrived) }()
		for range round % burst { // the kill falls before the first, after the first, the second, … answer
			<-arrived
		}
		server.Kill()
		acknowledged := <-answers
		server.restart(t)
		for i, before := range acknowledged {
			total.add(before, w.settle(t, caller, fmt.Sprintf("%s-%d", prefix, i), before))
		}
		require.Equal(t, burst, w.count(t, `SELECT count(*) FROM labels WHERE org_id = $1 AND name LIKE $2`, org.String(), prefix+"-%"))
	}
	t.Logf("%d kills in %s: %+v", bursts, time.Since(started), total)
	require.Positive(t, total.acknowledged)
	require.Positive(t, total.durable+total.never, "no kill fell into a burst")
}

// acknowledge sends a burst, tells of each answer and returns those that arrived.
func acknowledge(ctx context.Context, caller *client, prefix string, arrived chan<- struct{}) [burst]*answer {
	var answers [burst]*answer
	_ = each(burst, func(i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if got, err := caller.create(ctx, name, name); err == nil {
			answers[i] = &got
			arrived <- struct{}{}
		}
		return nil
	})
	return answers
}

// settle repeats a request after a crash until it is answered.
func (w *world) settle(t *testing.T, caller *client, name string, before *answer) answer {
	t.Helper()
	var after answer
	proc.Eventually(t, proc.Patience, "the answer of "+name, func() bool {
		var err error
		after, err = caller.create(t.Context(), name, name)
		require.NoError(t, err)
		// The dead process's transaction may still be rolling back.
		return after.code() != "idempotency_in_progress"
	})
	require.Equal(t, http.StatusCreated, after.status, "%s", after.body)
	if before != nil {
		require.Equal(t, http.StatusCreated, before.status, "%s", before.body)
		require.Equal(t, string(before.body), string(after.body), "what was acknowledged is repeated byte for byte")
		require.Equal(t, before.header.Get("X-Request-Id"), after.header.Get("X-Request-Id"))
		require.Equal(t, "true", after.header.Get("Idempotent-Replayed"))
	}
	return after
}

func (n *tally) add(before *answer, after answer) {
	switch {
	case before != nil:
		n.acknowledged++
	case after.header.Get("Idempotent-Replayed") == "true":
		n.durable++
	default:
		n.never++
	}
}
