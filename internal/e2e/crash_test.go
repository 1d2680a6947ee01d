package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// burst is how many requests are running when a process is killed.
const burst = 20

// How often a process is killed: in each of the two tests of lost answers, and in the test of bursts.
var (
	lostAnswers = sized(4, 15)
	bursts      = sized(burst, 30)
)

// committed waits until the answer for an Idempotency-Key is committed.
func (f *fixture) committed(t *testing.T, key string) {
	t.Helper()
	proc.Eventually(t, proc.Patience, "the commit of "+key, func() bool {
		return f.count(t, `SELECT count(*) FROM idempotency_keys WHERE key = $1`, key) == 1
	})
}

// repeated sends a request whose answer was lost twice more, and returns the answer.
func (f *fixture) repeated(t *testing.T, org orgs.ID, caller *client, name string) answer {
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
	require.Equal(t, 1, f.count(t, `SELECT count(*) FROM labels WHERE org_id = $1 AND name = $2`, org.String(), name))
	return first
}

// The process is killed after it wrote the answer, and before the answer reached the client.
func TestCrash_AnswerLost_IsRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	org := f.org(t, unlimited)
	_, key := f.key(t, org)
	server := f.serve(t, nil)
	lossy := proc.NewProxy(t, server.api)
	lossy.Mute(true)
	direct, started, compared := server.client(key), time.Now(), 0
	for round := range lostAnswers {
		name := fmt.Sprintf("lost-%d", round)
		unanswered := &client{base: "http://" + lossy.Address + "/v1", key: key, http: newHTTP()}
		lost := make(chan error, 1)
		go func() {
			_, err := unanswered.create(t.Context(), name, name)
			lost <- err
		}()
		f.committed(t, name)
		server.Kill()
		require.Error(t, <-lost, "the answer must be lost")
		swallowed := lossy.Swallowed()
		server.restart(t)
		first := f.repeated(t, org, direct, name)
		if bytes.HasSuffix(swallowed, []byte("}\n")) { // it was written in full before the kill
			compared++
			require.True(t, bytes.HasSuffix(swallowed, first.body), "swallowed %s, repeated %s", swallowed, first.body)
		}
	}
	t.Logf("%d kills in %s; in %d the lost answer had been written and equals the repeated one", lostAnswers, time.Since(started), compared)
}

// runCommit is part of the message that runs a prepared commit, and not of the one that prepares it:
// the empty name of the portal, then the name that pgx gives the statement.
func runCommit() string {
	digest := sha256.Sum256([]byte("commit"))
	return "\x00stmtcache_" + hex.EncodeToString(digest[:24]) + "\x00"
}

// The process is killed after its commit, and before the database's confirmation reached it.
func TestCrash_CommitUnconfirmed_AnswerIsRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	org := f.org(t, unlimited)
	_, key := f.key(t, org)
	database := proc.NewProxy(t, f.databaseAddress(t))
	server := f.serve(t, f.through(t, database))
	direct, started := server.client(key), time.Now()
	for round := range lostAnswers {
		name := fmt.Sprintf("unconfirmed-%d", round)
		database.MuteAfter(runCommit())
		lost := make(chan error, 1)
		go func() {
			_, err := direct.create(t.Context(), name, name)
			lost <- err
		}()
		f.committed(t, name)
		require.Empty(t, lost, "the commit is not confirmed yet")
		server.Kill()
		require.Error(t, <-lost)
		database.MuteAfter("")
		server.restart(t)
		f.repeated(t, org, direct, name)
	}
	t.Logf("%d kills in %s, each after the commit and before the process knew of it", lostAnswers, time.Since(started))
}

// tally counts the outcomes of the requests of a burst.
type tally struct{ acknowledged, durable, never int }

func TestCrash_DuringBurst_EachRequestTakesEffectOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	org := f.org(t, unlimited)
	_, key := f.key(t, org)
	server := f.serve(t, nil)
	started, caller, total := time.Now(), server.client(key), tally{}
	for round := range bursts {
		prefix := fmt.Sprintf("burst-%d", round)
		answers, arrived := make(chan [burst]*answer, 1), make(chan struct{}, burst)
		go func() { answers <- acknowledge(t.Context(), caller, prefix, arrived) }()
		for range round % burst { // round n kills after n answers
			<-arrived
		}
		server.Kill()
		acknowledged := <-answers
		server.restart(t)
		for i, before := range acknowledged {
			total.add(before, f.repeatUntilAnswered(t, caller, fmt.Sprintf("%s-%d", prefix, i), before))
		}
		require.Equal(t, burst, f.count(t, `SELECT count(*) FROM labels WHERE org_id = $1 AND name LIKE $2`, org.String(), prefix+"-%"))
	}
	t.Logf("%d kills in %s: %+v", bursts, time.Since(started), total)
	require.Positive(t, total.acknowledged)
	require.Positive(t, total.durable+total.never, "no burst was interrupted by a kill")
}

// acknowledge sends a burst and returns the answers that arrived. It writes to arrived for each.
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

// repeatUntilAnswered repeats a request after a crash until it is answered.
func (f *fixture) repeatUntilAnswered(t *testing.T, caller *client, name string, before *answer) answer {
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
		require.Equal(t, string(before.body), string(after.body), "an acknowledged answer is repeated byte for byte")
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
