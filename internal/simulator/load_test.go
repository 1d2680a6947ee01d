package simulator_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// load is a client, a simulator and an app in one process, over TCP.
type load struct {
	t        *testing.T
	url      string
	client   *http.Client
	statuses atomic.Int64

	mu    sync.Mutex
	times []time.Duration
}

func newLoad(t *testing.T) *load {
	t.Helper()
	l := &load{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}}
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.statuses.Add(int64(bytes.Count(body, []byte(`"statuses":[`))))
	}))
	network := simulator.New(simulator.Config{CallbackURL: app.URL, Token: canary.Token, Logger: canary.Logger(t)})
	server := httptest.NewServer(network.Handler())
	l.url = server.URL
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- network.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		l.client.CloseIdleConnections()
		server.Close()
		app.Close()
	})
	return l
}

func (l *load) post(path, body string) int {
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.url+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+canary.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := l.client.Do(request)
	if err != nil {
		l.t.Error(err)
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// run sends at a rate for a period, to 100,000 users in turn, and returns how many sends were
// accepted and how long it took.
func (l *load) run(perSecond int, period time.Duration) (accepted int64, took time.Duration) {
	total := int64(float64(perSecond) * period.Seconds())
	began := time.Now()
	var next, taken atomic.Int64
	l.times = l.times[:0]
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			var mine []time.Duration
			for i := next.Add(1) - 1; i < total; i = next.Add(1) - 1 {
				due := began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
				time.Sleep(time.Until(due)) // keeps the rate
				start := time.Now()
				if l.post("/v24.0/100000000000001/messages", fmt.Sprintf(
					`{"messaging_product":"whatsapp","recipient_type":"individual","to":"+1303%07d","type":"text",`+
						`"text":{"body":"Your parcel number %d is on its way and will be with you between nine and five."},`+
						`"biz_opaque_callback_data":"msg_01JQ8ZK5Y0000000000%07d:1"}`, i%100_000, i, i)) == http.StatusOK {
					taken.Add(1)
				}
				mine = append(mine, time.Since(start))
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.times = append(l.times, mine...)
		})
	}
	group.Wait()
	return taken.Load(), time.Since(began)
}

func (l *load) percentile(share float64) time.Duration {
	slices.Sort(l.times)
	return l.times[int(share*float64(len(l.times)-1))].Round(10 * time.Microsecond)
}

// heap returns the size of the live heap in MiB.
func heap() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}

// TestProof_Load sends with statuses and then silently. In the normal run it takes a second and
// checks that nothing is lost. With PARLEY_PROOF=full, or a duration, it checks the rates and
// the memory too, and needs an idle machine.
func TestProof_Load(t *testing.T) {
	t.Parallel()
	withStatuses, silently, strict := time.Second, 500*time.Millisecond, true
	switch wanted := os.Getenv("PARLEY_PROOF"); wanted {
	case "":
		strict = false
	case "full":
		withStatuses, silently = 10*time.Minute, time.Minute
	default:
		given, err := time.ParseDuration(wanted)
		require.NoError(t, err, "PARLEY_PROOF is full or a duration")
		withStatuses, silently = given, given
	}
	l := newLoad(t)
	settings := func(more string) {
		require.Equal(t, http.StatusOK, l.post("/sim/settings",
			`{"window":"off","throughput_limit":false,"pair_limit":false,"read_delay_ms":1000,"silent":`+more+`}`))
	}
	settings("false")
	l.run(500, min(withStatuses/2, 20*time.Second)) // fills the bounded stores
	before := heap()
	warm := int64(500 * min(withStatuses/2, 20*time.Second).Seconds())
	accepted, took := l.run(500, withStatuses)
	require.Equal(t, int64(500*withStatuses.Seconds()), accepted, "every send is accepted")
	require.Eventually(t, func() bool { return l.statuses.Load() == 3*(accepted+warm) }, 3*time.Minute, 10*time.Millisecond, "every status arrives")
	after := heap()
	rate := float64(accepted) / took.Seconds()
	t.Logf("with statuses: %.0f sends/s for %s, p50 %s, p99 %s; heap %.1f to %.1f MiB for %d more in the sent log",
		rate, took.Round(time.Second/10), l.percentile(0.5), l.percentile(0.99), before, after, accepted)
	if strict {
		require.InDelta(t, 500, rate, 10)
		require.Less(t, (after-before)*(1<<20), 16<<20+float64(accepted)*400, "memory grows by the sent log only")
	}
	settings("true")
	accepted, took = l.run(3000, silently)
	require.Equal(t, int64(3000*silently.Seconds()), accepted)
	rate = float64(accepted) / took.Seconds()
	t.Logf("silent: %.0f sends/s for %s, p50 %s, p99 %s; heap %.1f MiB",
		rate, took.Round(time.Second/10), l.percentile(0.5), l.percentile(0.99), heap())
	if strict {
		require.InDelta(t, 3000, rate, 60)
	}
}
