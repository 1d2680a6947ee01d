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

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// afterwards is how many requests follow each revocation on each process.
const afterwards = 3

var revoked = sized(40, 200)

func TestRevokedKey_EveryProcess_RefusesItAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	org := f.org(t, unlimited)
	processes := []*server{f.serve(t, nil), f.serve(t, nil)}
	_, busyKey := f.key(t, org)
	stop, served := load(t, processes, busyKey)
	defer stop()

	started, checked := time.Now(), 0
	for i := range revoked {
		id, key := f.key(t, org)
		probes := make([]*probe, len(processes))
		for j, process := range processes {
			probes[j] = watch(t.Context(), process.client(key), fmt.Sprintf("10.%d.%d", j, i))
		}
		for _, s := range probes {
			proc.Eventually(t, proc.Patience, "the key is used on both processes", func() bool { return s.served.Load() > 0 })
		}
		f.revoke(t, org, id)
		returned := time.Now()
		for _, s := range probes {
			checked += s.check(t, returned)
		}
	}
	stop()
	t.Logf("%d keys revoked by the command in %s under load (%d requests beside): %d requests started after a revocation, 0 served",
		revoked, time.Since(started), served.Load(), checked)
	require.GreaterOrEqual(t, checked, revoked*len(processes)*afterwards)
}

func (f *fixture) revoke(t *testing.T, org orgs.ID, id apikeys.ID) {
	t.Helper()
	done := proc.Run(t, f.settings(), "admin", "key", "revoke", "--org", org.String(), "--key", id.String())
	require.Equal(t, 0, done.Code, done.Stderr)
}

// load starts eight clients that send requests to all processes until stop is called.
func load(t *testing.T, processes []*server, key string) (stop func(), served *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	served = &atomic.Int64{}
	for range 8 {
		callers := []*client{processes[0].client(key), processes[1].client(key)}
		busy.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-pace.C // limits the load
				got, err := callers[n%2].get(ctx, "/labels?limit=5")
				if ctx.Err() == nil && (err != nil || got.status != http.StatusOK) {
					t.Errorf("under load: %d %s %v", got.status, got.body, err)
					return
				}
				served.Add(1)
			}
		})
	}
	return func() {
		cancel()
		busy.Wait()
	}, served
}

// probe sends requests with one key to one process, without pause.
type probe struct {
	served  atomic.Int64
	stop    context.CancelFunc
	stopped chan struct{}

	mu      sync.Mutex
	answers []answer
	err     error
}

// watch starts a probe. Each request has another address, because bad keys are limited per address.
func watch(ctx context.Context, caller *client, network string) *probe {
	ctx, stop := context.WithCancel(ctx)
	s := &probe{stop: stop, stopped: make(chan struct{})}
	go func() {
		defer close(s.stopped)
		defer caller.http.CloseIdleConnections()
		for n := 0; ctx.Err() == nil; n++ {
			from := map[string]string{"X-Forwarded-For": fmt.Sprintf("%s.%d", network, n%250)}
			got, err := caller.do(ctx, call{method: http.MethodGet, path: "/labels?limit=1", header: from})
			if ctx.Err() != nil {
				return
			}
			s.note(got, err)
		}
	}()
	return s
}

func (s *probe) note(got answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers = append(s.answers, got); err != nil {
		s.err = err
	}
	if got.status == http.StatusOK {
		s.served.Add(1)
	}
}

// since are the answers to requests that started after a time.
func (s *probe) since(moment time.Time) (later []answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, got := range s.answers {
		if got.started.After(moment) {
			later = append(later, got)
		}
	}
	return later, s.err
}

// check checks that every request that started after the revocation had returned was refused.
func (s *probe) check(t *testing.T, returned time.Time) int {
	t.Helper()
	var later []answer
	proc.Eventually(t, proc.Patience, "requests after the revocation", func() bool {
		var err error
		later, err = s.since(returned)
		require.NoError(t, err)
		return len(later) >= afterwards
	})
	s.stop()
	<-s.stopped
	for _, got := range later {
		require.Equal(t, http.StatusUnauthorized, got.status, "%s later: %s", got.started.Sub(returned), got.body)
		require.Equal(t, "revoked_api_key", got.code())
	}
	return len(later)
}
