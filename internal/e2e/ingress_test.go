package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/platform/statuswriter"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// ingressFixture has two cells, an organization with numbers in each, one process that serves and works,
// and a simulator whose callbacks are watched on their way.
type ingressFixture struct {
	*cellsFixture
	simulatorControl

	server *server
	// By cell.
	keys    map[string]string
	numbers map[string][]string

	mu    sync.Mutex
	posts []post
}

// post is a callback that the provider posted, and its answer.
type post struct {
	number string
	status int
	began  time.Time
	took   time.Duration
}

// newIngressFixture makes one whose process reaches the databases directly, unless a test cuts them off by their proxies:
// at full load the proxies took 6 % of the machine.
func newIngressFixture(t *testing.T, cutOff bool) *ingressFixture {
	t.Helper()
	f := &ingressFixture{
		cellsFixture: newCellsFixture(t), simulatorControl: newSimulatorControl(t), keys: map[string]string{}, numbers: map[string][]string{},
	}
	f.server = &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t), flags: []string{"--work"}}
	databases := f.behind
	if cutOff {
		databases = f.addresses
	}
	settings := f.settings().With(databases).With(proc.Settings{
		"PARLEY_LISTEN": f.server.api, "PARLEY_OPERATOR_LISTEN": f.server.operator, "PARLEY_DATABASE_CONNS": "16",
		"PARLEY_PROVIDER_BASE_URL": f.simulator, "PARLEY_PROVIDER_APP_ID": "200000000000001",
		"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
	})
	f.startSimulator(t, settings, f.watch(t)+"/provider/callbacks")
	f.set(t, "settings", map[string]any{
		"window": "off", "throughput_limit": false, "pair_limit": false, "batch_size": 1, "redeliver_after_ms": 500, "redeliver_max_ms": 1000,
	})
	inMain, inSecond := f.createOrgs(t, 4)
	for i, home := range []struct{ cell, org string }{{"main", inMain[0]}, {"second", inSecond[0]}} {
		f.keys[home.cell], f.numbers[home.cell] = f.keyFor(home.org), f.connect(t, settings, home.org, i)
	}
	f.server.settings = settings
	f.server.start(t)
	f.server.waitReady(t)
	return f
}

var phoneNumberID = regexp.MustCompile(`"phone_number_id":"(\d+)"`)

// watch returns the URL of a proxy in front of the process, which notes each callback and its answer.
func (f *ingressFixture) watch(t *testing.T) string {
	t.Helper()
	target, err := url.Parse("http://" + f.server.api)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = &http.Transport{MaxIdleConnsPerHost: 256}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		seen := post{began: time.Now()}
		if found := phoneNumberID.FindSubmatch(body); found != nil {
			seen.number = string(found[1])
		}
		answer := statuswriter.New(w)
		forward.ServeHTTP(answer, request)
		seen.status, seen.took = answer.Status, time.Since(seen.began)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.posts = append(f.posts, seen)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// TestIngress_StatusesOfSends_AnsweredInTime sends 200 messages a second for two minutes. The provider
// reports three statuses of each, one per callback.
func TestIngress_StatusesOfSends_AnsweredInTime(t *testing.T) { //nolint:paralleltest // a proof measures
	if !proof.Full() {
		t.Parallel()
	}
	perSecond, seconds := sized(20, 200), sized(3, 120)
	f := newIngressFixture(t, false)
	f.set(t, "settings", map[string]any{"sent_delay_ms": 100, "delivered_delay_ms": 300, "read_delay_ms": 700})
	count, caller := perSecond*seconds, f.server.client(f.keys["main"])
	var group errgroup.Group
	pace := time.NewTicker(time.Second / time.Duration(perSecond))
	defer pace.Stop()
	for n := range count {
		<-pace.C
		group.Go(func() error {
			sent := call{
				method: http.MethodPost, path: "/" + f.numbers["main"][n%numbersPerOrg] + "/messages",
				body: fmt.Sprintf(`{"messaging_product":"chat","to":"+35191%07d","type":"text","text":{"body":"Your order is ready."}}`, n),
			}
			got, err := caller.do(t.Context(), sent) // sends again what was answered with 503
			if err == nil && got.status != http.StatusAccepted {
				err = fmt.Errorf("%d %s", got.status, got.body)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	f.awaitApplied(t)
	require.Equal(t, count, f.count(t, `SELECT count(*) FROM message_states WHERE status = 'read'`))
	require.Equal(t, 3*count, f.count(t, `SELECT count(*) FROM events WHERE type = 'message.status'`))

	f.mu.Lock()
	defer f.mu.Unlock()
	var took []time.Duration
	late := 0
	for _, one := range f.posts {
		if proof.Full() {
			require.Equal(t, http.StatusOK, one.status)
		}
		took = append(took, one.took)
		if one.took > 250*time.Millisecond {
			late++
		}
	}
	slices.Sort(took)
	p50 := took[len(took)/2]
	t.Logf("%d sends at %d/s, %d callbacks: p50 %s, p99 %s, most %s; %d above 250 ms", count, perSecond, len(took),
		p50, took[len(took)*99/100], took[len(took)-1], late)
	if proof.Full() {
		require.LessOrEqual(t, p50, 50*time.Millisecond)
		require.LessOrEqual(t, late, len(took)/100)
	}
}

// awaitApplied waits until every message was sent and every callback posted and applied, in both cells.
func (f *ingressFixture) awaitApplied(t *testing.T) {
	t.Helper()
	f.awaitQuiet(t, func() int {
		return f.countIn(t, "main", `SELECT count(*) FROM lane_rows`) + f.countIn(t, "second", `SELECT count(*) FROM lane_rows`)
	})
}

// countIn counts in the database of a cell, around its proxy.
func (f *ingressFixture) countIn(t *testing.T, cell, sql string, args ...any) (n int) {
	t.Helper()
	setting := map[string]string{"main": "PARLEY_DATABASE_URL", "second": "PARLEY_CELL_SECOND_DATABASE_URL"}[cell]
	conn, err := pgx.Connect(t.Context(), f.behind[setting])
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// TestIngress_DatabasesAway_NothingIsMissing has people write to all numbers while the database of one
// cell is away, and then while all are. The provider posts again what was not answered with 200.
func TestIngress_DatabasesAway_NothingIsMissing(t *testing.T) {
	t.Parallel()
	f := newIngressFixture(t, true)
	span := sized(3*time.Second, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	said := map[string][]string{} // the ids of messages, by cell
	var group errgroup.Group
	var mu sync.Mutex
	for cell, numbers := range f.numbers {
		group.Go(func() error {
			for n := 0; ctx.Err() == nil; n++ {
				id, err := f.writes(t.Context(), numbers[n%len(numbers)], fmt.Sprintf("35191%07d", n%50))
				if err != nil {
					return err
				}
				mu.Lock()
				said[cell] = append(said[cell], id)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
	}
	require.Empty(t, f.server.health(t, calmFor))
	began := time.Now()
	one := during(t, f.server, f.second, span, func() {
		f.await(t, "callbacks of both cells were answered", func() bool {
			until := outage{from: began, to: time.Now()}
			return f.answers(until, "second")[http.StatusServiceUnavailable] > 0 && f.answers(until, "main")[http.StatusOK] > 0
		})
	})
	require.Empty(t, f.server.health(t, calmFor))
	f.main.Off()
	f.directory.Off()
	began = time.Now()
	all := during(t, f.server, f.second, span, func() {
		f.await(t, "a callback was refused", func() bool {
			return f.answers(outage{from: began, to: time.Now()}, "main")[http.StatusServiceUnavailable] > 0
		})
	})
	f.main.On(t)
	f.directory.On(t)
	require.Empty(t, f.server.health(t, calmFor))
	cancel()
	require.NoError(t, group.Wait())
	f.awaitApplied(t)

	ofMain, ofSecond, whole := f.answers(one, "main"), f.answers(one, "second"), f.answers(all, "main")
	t.Logf("answers while one cell is away: its numbers %v, the others %v; while all are away: %v", ofSecond, ofMain, whole)
	assert.Zero(t, ofSecond[http.StatusOK], "a 200 means stored")
	assert.Zero(t, whole[http.StatusOK])
	assert.Positive(t, ofMain[http.StatusOK])
	if proof.Full() {
		assert.Zero(t, ofMain[http.StatusServiceUnavailable], "numbers of the other cell are not refused")
	}
	for cell, sent := range said {
		t.Logf("%s: %d messages", cell, len(sent))
		stored := f.countIn(t, cell, `SELECT count(*) FROM provider_messages WHERE provider_id = ANY ($1)`, sent)
		assert.Equal(t, len(sent), stored, cell)
		assert.Equal(t, len(sent), f.countIn(t, cell, `SELECT count(*) FROM messages WHERE direction = 'inbound'`), cell)
		assert.Equal(t, len(sent), f.countIn(t, cell, `SELECT count(*) FROM events WHERE type = 'message.received'`), cell)
		assert.Equal(t, len(sent), f.countIn(t, cell, `SELECT sum(unread_count) FROM conversations`), cell)
	}
}

func (f *ingressFixture) await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	proc.Eventually(t, proc.Patience, what, func() bool {
		time.Sleep(20 * time.Millisecond)
		return reached()
	})
}

// answers counts the answers to callbacks of a cell's numbers that were posted and answered in an outage.
func (f *ingressFixture) answers(in outage, cell string) map[int]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[int]int{}
	for _, one := range f.posts {
		if slices.Contains(f.numbers[cell], one.number) && one.began.After(in.from) && one.began.Add(one.took).Before(in.to) {
			counts[one.status]++
		}
	}
	return counts
}
