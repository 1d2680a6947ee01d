package e2e_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/orgs"
)

const (
	requestsOfAKind = 40
	workers         = 8
)

// kind is one sort of request: its caller, the request and the expected answer.
type kind struct {
	name   string
	caller caller
	sent   func(n int) call
	status int
	code   string
	route  string
	// path is the path in the log, when it differs from the path as sent.
	path     string
	replayed bool
	// unlogged requests have no known key.
	unlogged bool
	// mostly marks a kind whose first few requests get another answer.
	mostly bool
}

// caller is an organization's key.
type caller struct {
	org        orgs.ID
	keyID, key string
}

// exchange is one request with its answer.
type exchange struct {
	kind   kind
	sent   call
	got    answer
	marker string
	ip     string
}

// Every request with a known key is in the API log with its answer. No secret is in the database or
// in the log of the process.
func TestAPILog_EveryKindOfRequest_IsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := f.serve(t, nil)
	logs := newAPILogFixture(t, f, server)
	kinds := logs.kinds()

	exchanges := make([]exchange, len(kinds)*requestsOfAKind)
	require.NoError(t, each(workers, func(worker int) error {
		for i := worker; i < len(exchanges); i += workers {
			seen, err := logs.send(t, kinds[i%len(kinds)], i)
			if err != nil {
				return fmt.Errorf("%s: %w", seen.kind.name, err)
			}
			exchanges[i] = seen
		}
		return nil
	}))
	server.stop(t)

	logged := logs.logged(t)
	byStatus, rows := map[int]int{}, 0
	for _, s := range exchanges {
		byStatus[s.got.status]++
		entries := logged[s.marker]
		if s.kind.unlogged {
			require.Empty(t, entries, "%s belongs to no organization", s.kind.name)
			continue
		}
		rows++
		require.Len(t, entries, 1, "%s: %s", s.kind.name, s.got.body)
		s.requireEqual(t, entries[0])
	}
	for _, k := range kinds {
		require.True(t, slices.ContainsFunc(exchanges, func(s exchange) bool { return s.kind.name == k.name && s.got.status == k.status }), k.name)
	}
	require.Equal(t, rows, f.count(t, `SELECT count(*) FROM api_log WHERE user_agent LIKE 'e2e/%' AND status <> 503`))
	t.Logf("%d requests of %d kinds, %d rows; by status: %v", len(exchanges), len(kinds), rows, byStatus)
	logs.requireNoSecret(t, server.Log(t))
}

// send sends request number n, with its own address and user agent.
func (f *apilogFixture) send(t *testing.T, k kind, n int) (exchange, error) {
	t.Helper()
	seen := exchange{kind: k, sent: k.sent(n), marker: fmt.Sprintf("e2e/%d", n), ip: fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)}
	if seen.sent.header == nil {
		seen.sent.header = map[string]string{}
	}
	seen.sent.header["X-Forwarded-For"] = seen.ip
	if seen.sent.header["User-Agent"] == "" {
		seen.sent.header["User-Agent"] = seen.marker
	}
	sender := f.server.client(k.caller.key)
	defer sender.http.CloseIdleConnections()
	var err error
	for try := range 100 {
		seen.got, err = sender.once(t.Context(), seen.sent)
		if err != nil || seen.got.malformed() != nil {
			break
		}
		// The machine stood still. The refusal may be in the log, so the next try has another marker.
		marker := fmt.Sprintf("e2e/%d-%d", n, try)
		seen.sent.header["User-Agent"] = strings.Replace(seen.sent.header["User-Agent"], seen.marker, marker, 1)
		seen.marker = marker
		time.Sleep(100 * time.Millisecond)
	}
	if err == nil && !k.mostly && (seen.got.status != k.status || seen.got.code() != k.code) {
		err = fmt.Errorf("answered %d %s", seen.got.status, seen.got.body)
	}
	return seen, err
}

// logged reads the API log of all organizations, by user agent.
func (f *apilogFixture) logged(t *testing.T) map[string][]apilogs.Entry {
	t.Helper()
	all := map[string][]apilogs.Entry{}
	for _, org := range f.orgIDs {
		entries, err := f.logs.List(t.Context(), org, 100_000)
		require.NoError(t, err)
		for _, entry := range entries {
			marker := strings.Fields(entry.UserAgent)[0]
			all[marker] = append(all[marker], entry)
		}
	}
	return all
}

// requireEqual compares an entry of the log with the request and its answer.
func (s exchange) requireEqual(t *testing.T, entry apilogs.Entry) {
	t.Helper()
	path, _, _ := strings.Cut("/v1"+s.sent.path, "?")
	if s.kind.path != "" {
		path = s.kind.path
	}
	agent := strings.ReplaceAll(s.sent.header["User-Agent"], canaryAgent, "svc_live_[hidden]")
	name := s.kind.name
	require.Equal(t, s.kind.caller.org, entry.OrgID, name)
	require.Equal(t, s.kind.caller.keyID, entry.KeyID.String(), name)
	require.Equal(t, s.sent.method, entry.Method, name)
	require.Equal(t, path, entry.Path, name)
	require.Equal(t, s.kind.route, entry.Route, name)
	require.Equal(t, s.got.status, entry.Status, name)
	require.Equal(t, s.got.code(), entry.Code, name)
	require.Equal(t, s.ip, entry.IP.String(), name)
	require.Equal(t, agent, entry.UserAgent, name)
	require.Equal(t, s.kind.replayed, entry.Replayed, name)
	require.Equal(t, s.kind.replayed, s.got.header.Get("Idempotent-Replayed") == "true", name)
	require.Positive(t, entry.Duration, name)
	require.LessOrEqual(t, entry.Duration, s.got.took, name)
	if answered := s.got.header.Get("X-Request-Id"); s.kind.replayed {
		require.NotEqual(t, answered, entry.ID.String(), "a repeated answer has the first request id, and its log entry has its own")
	} else {
		require.Equal(t, answered, entry.ID.String(), name)
	}
}

// requireNoSecret searches the whole database and the log of the process for every canary, as text
// and as hexadecimal digits, which is how a dump shows bytes.
func (f *apilogFixture) requireNoSecret(t *testing.T, log string) {
	t.Helper()
	dump := func(more ...string) string {
		out, err := exec.CommandContext(t.Context(), "pg_dump", append(more, f.databaseURL)...).Output()
		require.NoError(t, err)
		return string(out)
	}
	whole := dump()
	require.Contains(t, whole, "e2e/1\t", "the dump holds the API log")
	require.Contains(t, log, "request.handled")
	for name, canary := range f.canaries {
		require.Zero(t, strings.Count(whole, canary), "the %s is in the database", name)
		require.Zero(t, strings.Count(whole, hex.EncodeToString([]byte(canary))), "the %s is in the database", name)
		require.Zero(t, strings.Count(log, canary), "the %s is in the log", name)
	}
	// Accepted values are stored in one place only: the label in its table, the Idempotency-Key beside
	// the sealed answer.
	elsewhere := dump("--exclude-table-data=labels", "--exclude-table-data=idempotency_keys*")
	for name, canary := range f.kept {
		require.Positive(t, strings.Count(whole, canary), name)
		require.Zero(t, strings.Count(elsewhere, canary), "the %s is elsewhere in the database", name)
		require.Zero(t, strings.Count(whole, hex.EncodeToString([]byte(canary))), "the stored answer shows the %s", name)
		require.Zero(t, strings.Count(log, canary), "the %s is in the log", name)
	}
	t.Logf("0 of %d canaries in the dump (%d bytes) and the log (%d bytes): %v",
		len(f.canaries)+len(f.kept), len(whole), len(log), slices.Sorted(maps.Keys(f.canaries)))
}
