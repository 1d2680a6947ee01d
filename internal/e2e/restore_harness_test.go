package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

// restoreBlock is a block of commands in the section "Restore" of docs/operations.md.
func restoreBlock(t *testing.T, name string) string {
	t.Helper()
	document, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)<!-- restore: "+name+" -->\n```sh\n(.*?)```\n").FindAllSubmatch(document, -1)
	require.Len(t, found, 1, "one block named %s", name)
	return string(found[0][1])
}

// restoreCommand is a block with one command of the program, as its arguments.
func restoreCommand(t *testing.T, name string) []string {
	t.Helper()
	words := strings.Fields(restoreBlock(t, name))
	require.Equal(t, "parley", words[0])
	return words[1:]
}

// restoreFixture has a server with three cells and an archive of its WAL, a simulator, and a process for each role. Each
// cell is released in another way. Callbacks go through a proxy, so that the test decides when they arrive.
type restoreFixture struct {
	simulatorControl

	database  *proc.Postgres
	settings  proc.Settings
	variables map[string]string // of the commands in docs/operations.md
	api       string
	callbacks *proc.Proxy
	// calls counts the requests to the simulator.
	calls    atomic.Int64
	receiver *receiver.Receiver
	tenants  []*restoreTenant
	running  []*proc.Process
	logs     []string
	kills    int
}

// restoreTenant is the organization of one cell. unsent is how its cell is released.
type restoreTenant struct {
	cell, unsent, setting string
	org, key, number      string
	serial                atomic.Int64
	calls                 chan truth.Call
}

func newRestoreFixture(t *testing.T) *restoreFixture {
	t.Helper()
	f := &restoreFixture{simulatorControl: newSimulatorControl(t), api: proc.FreeAddress(t), receiver: receiver.New(t)}
	f.callbacks = proc.NewProxy(t, f.api)
	f.tenants = []*restoreTenant{
		{cell: "main", unsent: "wait", setting: "PARLEY_DATABASE_URL"},
		{cell: "fails", unsent: "fail", setting: "PARLEY_CELL_FAILS_DATABASE_URL"},
		{cell: "sends", unsent: "send", setting: "PARLEY_CELL_SENDS_DATABASE_URL"},
	}
	f.startDatabase(t)
	f.settings = proc.Settings{
		"PARLEY_MASTER_KEY": canary.Master, "PARLEY_LISTEN": f.api, "PARLEY_DATABASE_CONNS": "8", "PARLEY_PROVIDER_BASE_URL": f.counted(t),
		"PARLEY_PROVIDER_APP_ID": "200000000000001", "PARLEY_PROVIDER_APP_SECRET": canary.AppSecret,
		"PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken, "PARLEY_SEND_ECHO_WAIT": "10m",
		"PARLEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8", "PARLEY_WEBHOOK_CA_FILE": f.receiver.CAFile,
	}
	f.useDatabase(f.database)
	f.startSimulator(t, f.settings, "http://"+f.callbacks.Address+"/provider/callbacks")
	f.set(t, "settings", map[string]any{
		"window": "off", "throughput_limit": false, "pair_limit": false, "redeliver_after_ms": 300, "redeliver_max_ms": 300,
		"delivered_delay_ms": 200, "read_delay_ms": 300,
	})
	migrated := proc.Run(t, f.settings, "migrate")
	require.Equal(t, 0, migrated.Code, migrated.Stderr)
	f.start(t, "serve", "--work")
	f.makeTenants(t)
	return f
}

// startDatabase starts a server that archives its WAL.
func (f *restoreFixture) startDatabase(t *testing.T) {
	t.Helper()
	f.database = proc.NewPostgres(t, "max_connections = 200", "fsync = off", "archive_mode = on")
	f.variables = map[string]string{"BACKUP": f.database.Dir + "/base", "ARCHIVE": f.database.Dir + "/archive"}
	f.database.Script(t, `
mkdir "$ARCHIVE"
psql -c "ALTER SYSTEM SET archive_command = 'test ! -f $ARCHIVE/%f && cp %p $ARCHIVE/%f'" -c 'SELECT pg_reload_conf()'
createdb main
createdb fails
createdb sends`, f.variables)
}

// useDatabase lets new processes use the cells of a server.
func (f *restoreFixture) useDatabase(server *proc.Postgres) {
	for _, one := range f.tenants {
		f.settings[one.setting] = server.URL(one.cell)
	}
}

// counted is an address of the simulator that counts the requests. A connection that the simulator cuts is cut here, too.
func (f *restoreFixture) counted(t *testing.T) string {
	t.Helper()
	target, err := url.Parse(f.simulator)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// start starts a process and waits until it is ready.
func (f *restoreFixture) start(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{api: f.api, operator: proc.FreeAddress(t), settings: f.settings}
	s.Process = proc.Start(t, f.settings.With(proc.Settings{"PARLEY_OPERATOR_LISTEN": s.operator}), args...)
	s.waitReady(t)
	f.running, f.logs = append(f.running, s.Process), append(f.logs, s.Files()...)
	return s
}

// killAll kills the processes.
func (f *restoreFixture) killAll() {
	for _, one := range f.running {
		one.Kill()
		f.kills++
	}
	f.running = nil
}

// makeTenants makes an organization in each cell, with a number and a subscription.
func (f *restoreFixture) makeTenants(t *testing.T) {
	t.Helper()
	operator := &operator{t: t, settings: f.settings}
	for range f.tenants { // a new organization goes to the cell with the fewest
		operator.object("org", "create", "--name", "Acme", "--plan", "platform")
	}
	for _, listed := range operator.list("org", "list") {
		for i, one := range f.tenants {
			if listed["cell"] == one.cell {
				one.org = listed["id"].(string)
				one.number = f.connect(t, f.settings, one.org, i)[0]
				one.key = operator.object("key", "create", "--name", "restore", "--org", one.org)["api_key"].(string)
				one.calls = make(chan truth.Call, 100_000)
			}
		}
	}
	for _, one := range f.tenants {
		made, err := f.client(one).do(t.Context(), call{
			method: http.MethodPost, path: "/webhook_subscriptions",
			body: fmt.Sprintf(`{"url":%q,"events":["message.sent","message.status"]}`, f.receiver.URL+"/"+one.cell),
		})
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	}
}

func (f *restoreFixture) client(of *restoreTenant) *client {
	return &client{base: "http://" + f.api + "/v1", key: of.key, http: newHTTP()}
}

// send sends messages of each tenant, each to another person, and returns when all are accepted.
func (f *restoreFixture) send(t *testing.T, count int) {
	t.Helper()
	f.sendTo(t, count, func(of *restoreTenant) string { return fmt.Sprintf("+35191%07d", of.serial.Add(1)) })
}

// queue sends messages of each tenant that wait for one another, because they go to few people: a slow machine accepts them
// faster than the provider takes them.
func (f *restoreFixture) queue(t *testing.T, count int) {
	t.Helper()
	people := int64(sized(8, 80))
	f.sendTo(t, count, func(of *restoreTenant) string { return fmt.Sprintf("+35193%07d", of.serial.Add(1)%people) })
}

func (f *restoreFixture) sendTo(t *testing.T, count int, recipient func(of *restoreTenant) string) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	callers := map[*restoreTenant]*client{}
	for _, one := range f.tenants {
		callers[one] = f.client(one)
	}
	for range count {
		for _, one := range f.tenants {
			group.Go(func() error { return one.send(t.Context(), callers[one], recipient(one)) })
		}
	}
	require.NoError(t, group.Wait())
}

// send sends a message.
func (o *restoreTenant) send(ctx context.Context, caller *client, to string) error {
	mark := truth.Mark()
	got, err := caller.do(ctx, call{
		method: http.MethodPost, path: "/" + o.number + "/messages", header: map[string]string{"Idempotency-Key": mark},
		body: fmt.Sprintf(`{"messaging_product":"chat","to":"%s","type":"text","text":{"body":"%s"}}`, to, mark),
	})
	if err == nil && got.status != http.StatusAccepted {
		err = fmt.Errorf("%d %s", got.status, got.body)
	}
	o.calls <- truth.Call{Org: o.org, Key: mark, Mark: mark, Event: "message.sent", Status: got.status, Body: got.body}
	return err
}

// count reads a number from the cell of a tenant.
func (f *restoreFixture) count(t *testing.T, of *restoreTenant, sql string) int {
	t.Helper()
	return ask[int](t, f, of, sql)
}

// ask reads one value in the database of a cell.
func ask[T any](t *testing.T, f *restoreFixture, of *restoreTenant, sql string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.settings[of.setting])
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

// await waits until a condition holds in every cell.
func (f *restoreFixture) await(t *testing.T, what string, reached func(of *restoreTenant) bool) {
	t.Helper()
	for _, one := range f.tenants {
		proc.Eventually(t, 3*proc.Patience, what+" in "+one.cell, func() bool {
			time.Sleep(50 * time.Millisecond)
			return reached(one)
		})
	}
}

// took are the messages that the simulator took from a tenant in a time, which may last still.
func (f *restoreFixture) took(t *testing.T, of *restoreTenant, within truth.Span) map[string]bool {
	t.Helper()
	taken := map[string]bool{}
	for _, one := range truth.SimulatorSends(t, f.simulator) {
		if one.NumberID == of.number && one.At.After(within.Begin) && (within.End.IsZero() || one.At.Before(within.End)) {
			message, _, _ := strings.Cut(one.Reference, ":")
			taken[message] = true
		}
	}
	return taken
}
