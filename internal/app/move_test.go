package app_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
	"github.com/parley-chat/parley/schema"
)

// fixture is a process with two cells, and its API.
type fixture struct {
	cells *app.Cells
	api   *httptest.Server
	urls  map[string]string
	// more are further settings of the process.
	more map[string]string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{urls: map[string]string{"main": pgtest.URL(t), "second": pgtest.URL(t)}}
	f.start(t)
	return f
}

// patience is how long tests wait, because the machine may stand still.
const patience = 3 * time.Minute

// start starts the process on the databases.
func (f *fixture) start(t *testing.T) {
	t.Helper()
	settings := map[string]string{
		"PARLEY_DATABASE_URL": f.urls["main"], "PARLEY_CELL_SECOND_DATABASE_URL": f.urls["second"],
		"PARLEY_MASTER_KEY": app.DevMasterKey(), "PARLEY_DATABASE_CONNS": "8",
		"PARLEY_PROVIDER_APP_ID": "1", "PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
	}
	maps.Copy(settings, f.more)
	config := app.ReadConfig(settings)
	config.Dev = true
	process, err := app.New(t.Context(), config, canary.Logger(t), app.Options{Tracers: pgtest.Tracers(t), Patience: int(patience.Seconds())})
	require.NoError(t, err)
	t.Cleanup(process.Close)
	f.cells = process.Cells()
	require.NoError(t, f.cells.Migrate(t.Context(), func(string, int) {}))
	require.NoError(t, f.cells.SyncClocks(t.Context()))
	require.NoError(t, f.cells.CheckKeys(t.Context(), false))
	f.api = httptest.NewServer(process.Handler())
	t.Cleanup(f.api.Close)
}

// tenant is an organization with a key.
type tenant struct {
	*fixture

	id   orgs.ID
	key  string
	cell string
}

func (f *fixture) tenant(t *testing.T) *tenant {
	t.Helper()
	home, err := f.cells.ForNew(t.Context())
	require.NoError(t, err)
	org, _, err := home.Orgs.Create(t.Context(), audit.Operator(), orgs.Draft{Name: "Mover", Plan: "platform"})
	require.NoError(t, err)
	_, key, err := home.Keys.Issue(t.Context(), org.OrgID, audit.Operator(), apikeys.Draft{Name: "mover"})
	require.NoError(t, err)
	return &tenant{fixture: f, id: org.OrgID, key: key, cell: home.Name}
}

func (o *tenant) elsewhere() string {
	if o.cell == "main" {
		return "second"
	}
	return "main"
}

// sql runs plain statements in a cell's database.
func (f *fixture) sql(t *testing.T, cell, statement string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.urls[cell])
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

// fill gives the tenant that many labels.
func (o *tenant) fill(t *testing.T, rows int) {
	t.Helper()
	o.sql(t, o.cell, `
		INSERT INTO labels (org_id, id, team_id, name, name_key, color, updated_at)
		SELECT $1, ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, t.id, 'Label ' || n, 'label ' || n, 'gray', now()
		FROM generate_series(1, $2::int) n, teams t
		WHERE t.org_id = $1`, o.id.String(), rows)
}

type answer struct {
	status int
	body   map[string]any
}

func (o *tenant) ask(ctx context.Context, method, path, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, o.api.URL+"/v1"+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+o.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: response.StatusCode}
	return a, json.Unmarshal(raw, &a.body)
}

// askUntilServed repeats the request while the answer is 503, as a process answers when its machine stands still for a
// second, or 429, as a fast machine that reads many pages is answered.
func (o *tenant) askUntilServed(t *testing.T, method, path, body string) answer {
	t.Helper()
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		got, err := o.ask(t.Context(), method, path, body)
		require.NoError(t, err)
		if got.status != http.StatusServiceUnavailable && got.status != http.StatusTooManyRequests || time.Now().After(until) {
			return got
		}
	}
}

// walk reads the names of the labels from a cursor to the end of the list, at most that many pages.
func (o *tenant) walk(t *testing.T, cursor string, pages int) (names []string, next string) {
	t.Helper()
	for range pages {
		path := "/labels?limit=100"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		page := o.askUntilServed(t, http.MethodGet, path, "")
		require.Equal(t, 200, page.status, "%v", page.body)
		for _, item := range page.body["data"].([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		if page.body["has_more"] == false {
			return names, ""
		}
		cursor = page.body["next_cursor"].(string)
	}
	return names, cursor
}

func TestMove_ConcurrentWrites_NoneAreLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover, neighbour := f.tenant(t), f.tenant(t)
	require.NotEqual(t, mover.cell, neighbour.cell, "new organizations go to the emptiest cell")
	filled := proof.Sized(1_000, 5_000)
	mover.fill(t, filled)
	_, cursor := mover.walk(t, "", 3)

	stop := make(chan struct{})
	var writers sync.WaitGroup
	created := make([]map[string]bool, 4)
	refused := make([]int, 4)
	for w := range created {
		created[w] = map[string]bool{}
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				time.Sleep(5 * time.Millisecond) // a copy must be faster than the writers, also on a busy machine
				name := fmt.Sprintf("writer %d label %d", w, i)
				made, err := mover.ask(t.Context(), http.MethodPost, "/labels", `{"name":"`+name+`"}`)
				switch {
				case err == nil && made.status == 201:
					created[w][name] = true
				case err == nil && made.status == 503:
					refused[w]++
				case err == nil && made.status == 429:
				default:
					t.Errorf("writer: %v %v", made, err)
				}
			}
		})
	}
	for range 4 { // to the other cell and back, twice
		moved, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
		require.NoError(t, err)
		require.Greater(t, moved.Rows["labels"], int64(filled-1))
		require.False(t, proof.Full() && moved.Paused > 5*time.Second, "paused for %s to copy %d late rows", moved.Paused, moved.Late)
		mover.cell = moved.To
	}
	close(stop)
	writers.Wait()

	names, more := mover.walk(t, "", 10_000)
	require.Empty(t, more, "every label was listed")
	have := map[string]bool{}
	for _, name := range names {
		require.False(t, have[name], "%s twice", name)
		have[name] = true
	}
	total := filled
	for w, made := range created {
		total += len(made)
		for name := range maps.Keys(made) {
			require.True(t, have[name], "writer %d got 201 and %q is missing", w, name)
		}
	}
	require.Len(t, names, total)
	old, _ := mover.walk(t, cursor, 1_000)
	require.True(t, slices.Contains(old, "Label 1"), "a cursor from before the move goes on after it")
	t.Logf("%d labels written during four moves, %v requests told to wait", total-filled, refused)
}

func TestMove_RunAgain_FinishesTheMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	mover.fill(t, 100)
	from, to := mover.cell, mover.elsewhere()
	first, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), to)
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Rows["organizations"])
	require.EqualValues(t, 1, first.Rows["api_keys"])
	require.EqualValues(t, 2, first.Rows["audit_log"])

	again, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), to)
	require.NoError(t, err)
	require.Equal(t, to, again.From, "it is in that cell already")

	// A move died after the change in the directory: the organization is still frozen at the target.
	f.sql(t, to, `UPDATE organizations SET frozen_at = now() WHERE org_id = $1`, mover.id.String())
	shut, err := mover.ask(t.Context(), http.MethodGet, "/labels", "")
	require.NoError(t, err)
	require.Equal(t, 503, shut.status)
	before, err := f.cells.Directory.HomeOf(t.Context(), mover.id)
	require.NoError(t, err)
	_, err = f.cells.Move(t.Context(), mover.id, audit.Operator(), to)
	require.NoError(t, err)
	open := mover.askUntilServed(t, http.MethodGet, "/labels", "")
	require.Equal(t, 200, open.status)
	require.Equal(t, []string{"org.reopened", "org.moved"}, mover.actions(t, to)[:2])
	_, err = f.cells.Directory.MoveHome(t.Context(), mover.id, before, from)
	require.ErrorIs(t, err, directory.ErrChanged, "the first move, if it was only suspended, changes nothing any more")

	back, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), from)
	require.NoError(t, err, "old rows at the source do not prevent a move back")
	require.EqualValues(t, 100, back.Rows["labels"])
}

// A directory that was restored from an old backup may name the wrong cell. A move then meets rows at its target that
// are in use, or newer: it deletes none of them.
func TestMove_TargetOpenOrNewer_RefusedAndKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	mover.fill(t, 10)
	from, to := mover.cell, mover.elsewhere()
	_, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), to)
	require.NoError(t, err)
	for name, change := range map[string]string{
		"open":  `UPDATE organizations SET frozen_at = NULL WHERE org_id = $1`,
		"newer": `UPDATE organizations SET frozen_at = now(), epoch = 1000 WHERE org_id = $1`,
	} {
		f.sql(t, from, change, mover.id.String())
		_, err = f.cells.Move(t.Context(), mover.id, audit.Operator(), from)
		require.ErrorContains(t, err, "in use or newer", name)
		require.NoError(t, f.cells.Each(func(cell *app.Cell) error {
			labels, err := postgres.One[int](t.Context(), cell.DB.System("test"), `SELECT count(*) FROM labels WHERE org_id = @org`,
				postgres.Args{"org": mover.id})
			require.Equal(t, 10, labels, "%s: cell %s", name, cell.Name)
			return err
		}))
		require.Equal(t, 200, mover.askUntilServed(t, http.MethodGet, "/labels", "").status)
	}
	f.sql(t, from, `UPDATE organizations SET frozen_at = NULL WHERE org_id = $1`, mover.id.String())
	require.NoError(t, f.cells.Each(func(cell *app.Cell) error {
		require.ErrorIs(t, postgres.PurgeOrg(t.Context(), cell.DB, mover.id, schema.Tenant()), postgres.ErrInUse)
		return nil
	}))
}

// A move waits for transactions that cross organizations and began before it. Those that begin later do not wait for
// the move, because every organization needs them.
func TestMove_SystemTransactionOpen_OthersDoNotWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	var home *app.Cell
	require.NoError(t, f.cells.Each(func(cell *app.Cell) error {
		if cell.Name == mover.cell {
			home = cell
		}
		return nil
	}))
	frozen := func(tx postgres.Scope) bool {
		frozen, err := postgres.One[bool](t.Context(), tx, `SELECT frozen_at IS NOT NULL FROM organizations WHERE org_id = @org`,
			postgres.Args{"org": mover.id})
		require.NoError(t, err)
		return frozen
	}
	moved := make(chan error, 1)
	_, err := postgres.InSystemTx(t.Context(), home.DB, "test", func(tx *postgres.Tx) (struct{}, error) {
		go func() {
			_, err := f.cells.Move(context.WithoutCancel(t.Context()), mover.id, audit.Operator(), mover.elsewhere())
			moved <- err
		}()
		require.Eventually(t, func() bool { return frozen(tx) }, 3*time.Minute, 10*time.Millisecond)
		for range 3 {
			_, err := postgres.InSystemTx(t.Context(), home.DB, "test", func(tx *postgres.Tx) (bool, error) { return frozen(tx), nil })
			require.NoError(t, err, "another transaction does not wait")
		}
		require.Empty(t, moved, "the move waits")
		return struct{}{}, nil
	})
	require.NoError(t, err)
	require.NoError(t, <-moved)
}

func TestMove_FourAtOnce_OneMovesOthersWaitOrAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	filled := proof.Sized(500, 2_000)
	mover.fill(t, filled)
	for range 5 {
		to := mover.elsewhere()
		results := make(chan error, 4)
		for range 4 {
			go func() {
				_, err := f.cells.Move(context.WithoutCancel(t.Context()), mover.id, audit.Operator(), to)
				results <- err
			}()
		}
		won := 0
		for range 4 {
			if err := <-results; err == nil {
				won++
			} else {
				require.ErrorContains(t, err, "under way")
			}
		}
		require.GreaterOrEqual(t, won, 1)
		mover.cell = to
		names, _ := mover.walk(t, "", 100)
		require.Len(t, names, filled)
	}
}

func TestMove_DirectoryUpdateFails_OrganizationStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	mover.fill(t, 100)
	f.sql(t, "main", `ALTER TABLE directory.org_routes ADD CONSTRAINT stuck CHECK (epoch = 1)`)
	_, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
	require.ErrorContains(t, err, "stays in "+mover.cell)
	made := mover.askUntilServed(t, http.MethodPost, "/labels", `{"name":"still here"}`)
	require.Equal(t, 201, made.status, "%v", made.body)

	f.sql(t, "main", `ALTER TABLE directory.org_routes DROP CONSTRAINT stuck`)
	moved, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
	require.NoError(t, err)
	require.EqualValues(t, 101, moved.Rows["labels"])
}

func TestMove_ProcessWithCachedRoute_FindsTheNewCell(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mover := f.tenant(t)
	second := &fixture{urls: f.urls}
	second.start(t)
	late := &tenant{fixture: second, id: mover.id, key: mover.key}
	for range 3 {
		seen := late.askUntilServed(t, http.MethodGet, "/labels", "")
		require.Equal(t, 200, seen.status)
		moved, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
		require.NoError(t, err)
		mover.cell = moved.To
		made, err := late.ask(t.Context(), http.MethodPost, "/labels", `{"name":"in `+moved.To+" "+moved.From+`"}`)
		require.NoError(t, err)
		require.Contains(t, []int{201, 409}, made.status, "the first request after the move reaches the new cell: %v", made.body)
	}
}

// After a move the copy of the organization in its old cell stays frozen until it is purged. A process that
// has the old route in its cache must not answer callbacks with 503 until then.
func TestMove_IngressWithCachedRoute_StoresInTheNewCell(t *testing.T) {
	t.Parallel()
	const number = "100000000000042"
	f := newFixture(t)
	mover := f.tenant(t)
	require.NoError(t, f.cells.Each(func(home *app.Cell) error {
		if home.Name != mover.cell {
			return nil
		}
		_, err := home.Accounts.Attach(t.Context(), mover.id, audit.Operator(),
			accounts.Draft{BusinessAccountID: "200000000000042", PhoneNumberID: number, Token: provider.NewToken(canary.Token)},
			provider.NumberState{Phone: "+351210000042", Status: provider.NumberConnected}, home.Clock.Now())
		return err
	}))
	second := &fixture{urls: f.urls}
	second.start(t)
	ingress := second.cells.Ingress(canary.Logger(t))
	body := []byte(`{"object":"chat_business_account","entry":[{"id":"200000000000042","changes":[{"field":"messages","value":{` +
		`"metadata":{"phone_number_id":"` + number + `"},"statuses":[{"id":"wamid.1","status":"read","timestamp":"1773480413"}]}}]}]}`)
	mac := hmac.New(sha256.New, []byte(canary.AppSecret))
	mac.Write(body)
	push := func() int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/provider/callbacks", bytes.NewReader(body))
		request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		answer := httptest.NewRecorder()
		ingress.ServeHTTP(answer, request)
		return answer.Code
	}
	require.Equal(t, http.StatusOK, push())
	for range 3 {
		moved, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
		require.NoError(t, err)
		mover.cell = moved.To
		require.Equal(t, http.StatusOK, push())
	}
}
