package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/edge/api"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider/cloud"
	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/openapi"
	"github.com/parley-chat/parley/schema"
)

// doomed is the request for a child process that is killed before it answers.
type doomed struct {
	Directory, Cell, CellURL, Network, Path, Key, Idempotency string
	Now                                                       time.Time
}

const doomedVariable = "PARLEY_TEST_DOOMED"

// TestRegisterChild is the child process of TestRegister_ProcessKilled_NoSecondPIN. It does nothing in
// a normal run.
func TestRegisterChild(t *testing.T) {
	t.Parallel()
	encoded := os.Getenv(doomedVariable)
	if encoded == "" {
		return
	}
	var plan doomed
	require.NoError(t, json.Unmarshal([]byte(encoded), &plan))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1"+plan.Path, strings.NewReader(rightPIN))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+plan.Key)
	request.Header.Set("Idempotency-Key", plan.Idempotency)
	answer := httptest.NewRecorder()
	childAPI(t, plan).ServeHTTP(answer, request)
	t.Fatalf("survived: %d %s", answer.Code, answer.Body)
}

func childAPI(t *testing.T, plan doomed) *api.API {
	t.Helper()
	now := clock.NewManual(plan.Now)
	open := func(url string) *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{
			URL: pgtest.Patient(t, url), Name: "doomed", MaxConns: 2, AcquireWait: time.Minute, Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(),
		})
		require.NoError(t, err)
		return db
	}
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	messaging, err := cloud.New(cloud.Config{
		BaseURL: plan.Network, AppID: simulator.DefaultAppID, AppSecrets: []telemetry.Secret{canary.AppSecret},
		VerifyToken: canary.VerifyToken, Clock: now,
	})
	require.NoError(t, err)
	routes, logger := directory.New(open(plan.Directory), now), canary.Logger(t)
	made, err := cell.New(cell.Deps{
		Name: plan.Cell, DB: open(plan.CellURL), Clock: now, Directory: routes, Ring: ring, Provider: messaging, Logger: logger,
	})
	require.NoError(t, err)
	contract, err := openapi.Load()
	require.NoError(t, err)
	cursors, err := paging.NewCursors(ring)
	require.NoError(t, err)
	served, err := api.New(api.Deps{
		Cells: map[string]*cell.Cell{plan.Cell: made}, Directory: routes, Contract: contract, Clock: now, Cursors: cursors,
		Limiter: ratelimit.New(ratelimit.Options{Clock: now}), Guesses: ratelimit.NewLocal(ratelimit.Limit{PerSecond: 1, Burst: 9}, now),
		Metrics: telemetry.NewMetrics("test"), Logger: logger, Version: "test", MaxInFlight: 9,
	})
	require.NoError(t, err)
	return served
}

// TestRegister_ProcessKilled_NoSecondPIN kills a process at each step of a registration. A request with
// the same Idempotency-Key sends no second PIN when the first succeeded.
func TestRegister_ProcessKilled_NoSecondPIN(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	for i, test := range []struct {
		name    string
		method  string
		ending  string
		reached bool
		calls   int
	}{
		{"on the way to the provider", http.MethodPost, "/register", false, 2},
		{"before the provider's answer", http.MethodPost, "/register", true, 1},
		{"after the provider's answer", http.MethodGet, "", true, 1},
	} {
		number := "10000000000008" + string(rune('0'+i))
		connect(t, client, number, pending(canary.PIN), nil)
		path := "/" + number + "/register"
		plan := doomed{
			Directory: s.DatabaseURL("main"), Cell: s.Name, CellURL: s.DatabaseURL(s.Name), Network: s.Network.URL, Path: path,
			Key: client.Key(), Idempotency: "crash-" + number, Now: s.Clock.Now(),
		}
		encoded, err := json.Marshal(plan)
		require.NoError(t, err)
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRegisterChild$")
		child.Env = append(os.Environ(), doomedVariable+"="+string(encoded))
		started, died := make(chan struct{}), make(chan struct{})
		s.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
			dies := r.Method == test.method && strings.HasSuffix(r.URL.Path, number+test.ending)
			if !dies {
				network.ServeHTTP(w, r)
				return
			}
			if test.reached {
				network.ServeHTTP(discard{header: http.Header{}}, r)
			}
			<-started
			_ = child.Process.Kill()
			<-died
			panic(http.ErrAbortHandler)
		})
		require.NoError(t, child.Start())
		close(started)
		_ = child.Wait()
		close(died)
		require.Equal(t, -1, child.ProcessState.ExitCode(), "%s: it was killed", test.name)
		s.Network.Twist(nil)

		early := client.Post(t, path, rightPIN, "Idempotency-Key", plan.Idempotency)
		require.Equal(t, []any{409, "idempotency_in_progress"}, []any{early.Status, early.Code()}, test.name)
		early = client.Post(t, path, rightPIN)
		require.Equal(t, []any{409, "registration_in_progress"}, []any{early.Status, early.Code()}, test.name)
		s.Clock.Move(idempotency.LeaseTime)
		again := client.Post(t, path, rightPIN, "Idempotency-Key", plan.Idempotency)
		require.Equal(t, 200, again.Status, "%s: %s", test.name, again.Body)
		require.Equal(t, test.calls, s.Network.Calls(http.MethodPost, path), test.name)
		repeated := client.Post(t, path, rightPIN, "Idempotency-Key", plan.Idempotency)
		require.Equal(t, string(again.Body), string(repeated.Body))
		require.Equal(t, "true", repeated.Header.Get("Idempotent-Replayed"))
	}
}
