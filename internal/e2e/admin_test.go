package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

// operator runs commands of `parley admin`, and calls the API to check their effect.
type operator struct {
	t        *testing.T
	settings proc.Settings
	server   *server
	org      string
}

func newOperator(t *testing.T, plan string) *operator {
	t.Helper()
	f := newFixture(t)
	o := &operator{t: t, settings: f.settings(), server: f.serve(t, nil)}
	made := o.object("org", "create", "--name", "Acme", "--plan", plan)
	require.Equal(t, []string{"id", "team_id"}, slices.Sorted(maps.Keys(made)))
	o.org = made["id"].(string)
	return o
}

// object runs a command about the organization that prints one JSON object.
func (o *operator) object(args ...string) (object map[string]any) {
	o.t.Helper()
	require.NoError(o.t, json.Unmarshal([]byte(o.run(args)), &object))
	return object
}

// list runs a command that prints a JSON array.
func (o *operator) list(args ...string) (list []map[string]any) {
	o.t.Helper()
	require.NoError(o.t, json.Unmarshal([]byte(o.run(args)), &list))
	return list
}

func (o *operator) run(args []string) string {
	o.t.Helper()
	done := proc.Run(o.t, o.settings, o.command(args)...)
	require.Equal(o.t, 0, done.Code, "%s: %s", strings.Join(args, " "), done.Stderr)
	return done.Stdout
}

// refused runs a command that must fail and returns its error output.
func (o *operator) refused(args ...string) string {
	o.t.Helper()
	done := proc.Run(o.t, o.settings, o.command(args)...)
	require.Equal(o.t, 1, done.Code, strings.Join(args, " "))
	require.Empty(o.t, done.Stdout)
	return done.Stderr
}

func (o *operator) command(args []string) []string {
	args = append([]string{"admin", "--json"}, args...)
	if o.org != "" && !slices.Contains(args, "--org") && args[2]+args[3] != "orglist" && args[2]+args[3] != "orgcreate" {
		args = append(args, "--org", o.org)
	}
	return args
}

// requireAnswer sends a request with a key and checks status and code of the answer.
func (o *operator) requireAnswer(key string, sent call, status int, code string) answer {
	o.t.Helper()
	got, err := o.server.client(key).do(o.t.Context(), sent)
	require.NoError(o.t, err)
	require.Equal(o.t, status, got.status, "%s", got.body)
	require.Equal(o.t, code, got.code())
	return got
}

func me() call { return call{method: http.MethodGet, path: "/me"} }

func labelNamed(name, team string) call {
	body, _ := json.Marshal(map[string]string{"name": name, "team_id": team})
	return call{method: http.MethodPost, path: "/labels", body: string(body)}
}

func TestAdmin_Keys_CreateExpireRevoke(t *testing.T) {
	t.Parallel()
	o := newOperator(t, "platform")
	made := o.object("key", "create", "--name", "server")
	require.Equal(t, []string{"api_key", "id"}, slices.Sorted(maps.Keys(made)))
	key := made["api_key"].(string)
	shown := o.requireAnswer(key, me(), http.StatusOK, "").data(t)
	require.Equal(t, made["id"], shown["id"])
	require.Equal(t, "server", shown["name"])

	// A process measures the offset to the database's clock. The error is at most half of the time
	// that the database took to answer.
	const clockError = 500 * time.Millisecond
	var short string
	var expires time.Time
	tries := 0
	for lead := 2 * time.Second; ; lead *= 2 { // on a busy machine the key may expire before the request
		tries++
		expires = time.Now().Add(lead).UTC().Truncate(time.Second).Add(time.Second)
		short = o.object("key", "create", "--name", "short", "--expires-at", expires.Format(time.RFC3339))["api_key"].(string)
		got, err := o.server.client(short).do(t.Context(), me())
		require.NoError(t, err)
		if time.Now().Before(expires.Add(-clockError)) {
			require.Equal(t, http.StatusOK, got.status, "%s", got.body)
			break
		}
	}
	keys := o.list("key", "list")
	require.Len(t, keys, 1+tries)
	require.Equal(t, key[len(key)-4:], keys[0]["last4"])
	require.Nil(t, keys[0]["revoked_at"])
	require.Equal(t, expires.Format("2006-01-02T15:04:05.000Z"), keys[tries]["expires_at"])

	o.object("key", "revoke", "--key", made["id"].(string))
	o.requireAnswer(key, me(), http.StatusUnauthorized, "revoked_api_key")
	require.NotNil(t, o.list("key", "list")[0]["revoked_at"])
	proc.Eventually(t, proc.Patience, "the key expires", func() bool {
		got, err := o.server.client(short).do(t.Context(), me())
		require.NoError(t, err)
		return got.code() == "expired_api_key"
	})
	require.WithinRange(t, time.Now(), expires.Add(-clockError), expires.Add(proc.Patience), "it expires at expires_at")

	require.Contains(t, o.refused("key", "revoke", "--key", "01a1dd0b-7234-7252-a0a9-ec80e7394f0f"), "No such API key")
	require.Contains(t, o.refused("key", "create", "--name", "x", "--org", "01a1dd0b-7234-7252-a0a9-ec80e7394f0f"), "no organization with that id")
	require.Contains(t, o.refused("key", "create", "--name", "x", "--expires-at", "tomorrow"), "--expires-at")
}

func TestAdmin_TeamsAndUsers_CreateAndList(t *testing.T) {
	t.Parallel()
	o := newOperator(t, "starter")
	key := o.object("key", "create", "--name", "server")["api_key"].(string)
	second := o.object("team", "create", "--name", "Second")["id"].(string)
	require.Len(t, o.list("team", "list"), 2)
	o.requireAnswer(key, creating("VIP", ""), http.StatusBadRequest, "missing_required_field")
	o.requireAnswer(key, labelNamed("VIP", second), http.StatusCreated, "")

	user := o.object("user", "create", "--name", "Ada", "--email", "ada@example.com", "--team", second)
	require.Equal(t, user["id"], o.list("user", "list")[0]["id"])
	teams := o.requireAnswer(key, me(), http.StatusOK, "").data(t)["teams"].([]any)
	require.Len(t, teams, 2)
	member := map[string]any{"id": user["id"], "name": "Ada", "email": "ada@example.com"}
	require.Contains(t, teams, any(map[string]any{"id": second, "name": "Second", "members": []any{member}}))
	require.Contains(t, o.refused("user", "create", "--name", "Eve", "--email", "ADA@example.com", "--team", second), "already_exists")
}

func TestAdmin_Organizations_ChangesApplyToRequests(t *testing.T) {
	t.Parallel()
	o := newOperator(t, "starter")
	key := o.object("key", "create", "--name", "server")["api_key"].(string)
	organization := o.requireAnswer(key, me(), http.StatusOK, "").data(t)["organization"].(map[string]any)
	require.Equal(t, o.org, organization["id"])
	require.Equal(t, "Acme", organization["name"])
	require.Equal(t, "starter", organization["plan"])

	o.object("org", "set", "--plan", "free")
	o.requireAnswer(key, me(), http.StatusForbidden, "feature_not_available")
	o.object("org", "set", "--plan", "platform", "--require-opt-in", "on", "--stop-keywords", "stop,halt")
	organization = o.requireAnswer(key, me(), http.StatusOK, "").data(t)["organization"].(map[string]any)
	require.Equal(t, map[string]any{"per_second": 500.0, "burst": 1000.0}, organization["rate_limit"])

	o.object("org", "set", "--subscription", "inactive")
	o.requireAnswer(key, creating("lapsed", ""), http.StatusPaymentRequired, "subscription_inactive")
	o.requireAnswer(key, me(), http.StatusOK, "")
	o.object("org", "set", "--subscription", "trialing", "--trial-ends-at", "2020-01-01T00:00:00Z")
	o.requireAnswer(key, creating("trial over", ""), http.StatusPaymentRequired, "subscription_inactive")
	o.object("org", "set", "--trial-ends-at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	o.requireAnswer(key, creating("on trial", ""), http.StatusCreated, "")

	require.NotNil(t, o.object("org", "suspend")["suspended_at"])
	o.requireAnswer(key, me(), http.StatusForbidden, "organization_suspended")
	require.Nil(t, o.object("org", "resume")["suspended_at"])
	o.requireAnswer(key, me(), http.StatusOK, "")

	listed := o.list("org", "list")
	require.Len(t, listed, 2, "with the neighbour in the second cell")
	require.Equal(t, []any{"stop", "halt"}, listed[0]["stop_keywords"])
	require.Equal(t, true, listed[0]["require_opt_in"])
	for _, command := range [][]string{{"org", "set", "--plan", "gold"}, {"org", "create", "--name", "x", "--plan", "gold"}} {
		require.Contains(t, o.refused(command...), `--plan: there is no plan "gold"; the plans are free, starter, growth, platform`)
	}
	require.Contains(t, o.refused("org", "set", "--org", "nonsense", "--plan", "free"), "--org")
}

func TestAdmin_AuditAndLogs_ListEntries(t *testing.T) {
	t.Parallel()
	o := newOperator(t, "starter")
	made := o.object("key", "create", "--name", "server")
	key := made["api_key"].(string)
	o.object("org", "suspend")
	o.object("org", "resume")
	o.requireAnswer(key, me(), http.StatusOK, "")
	o.object("key", "revoke", "--key", made["id"].(string), "--as", "alice")
	o.requireAnswer(key, me(), http.StatusUnauthorized, "revoked_api_key")
	require.Equal(t, "parley admin: alice", o.list("audit", "list")[0]["actor_id"])

	actions := []string{}
	for _, entry := range o.list("audit", "list") {
		require.Equal(t, "system", entry["actor_kind"])
		require.Regexp(t, `^parley admin: .+`, entry["actor_id"], "by default the user of the operating system")
		require.NotEmpty(t, entry["target"])
		actions = append(actions, entry["action"].(string))
	}
	require.Equal(t, []string{"key.revoked", "org.resumed", "org.suspended", "key.issued", "org.created"}, actions, "newest first")

	var logs []map[string]any
	proc.Eventually(t, proc.Patience, "the API log is written", func() bool {
		logs = o.list("logs", "list")
		return len(logs) == 2
	})
	require.Equal(t, "revoked_api_key", logs[0]["code"])
	require.EqualValues(t, http.StatusOK, logs[1]["status"])
	require.Equal(t, "/v1/me", logs[1]["path"])
	require.Equal(t, made["id"], logs[1]["key_id"])
	require.Len(t, o.list("logs", "list", "--limit", "1"), 1)
	table := proc.Run(t, o.settings, "admin", "org", "list")
	require.Regexp(t, `^ID +NAME +PLAN`, table.Stdout, "without --json it prints a table")
}

func TestAdmin_JobRetried_InTheAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o := &operator{t: t, settings: f.settings()}
	org := f.org(t, unlimited)
	f.exec(t, `INSERT INTO river.river_job (kind, args, state, finalized_at) VALUES ('forget', jsonb_build_object('org', $1::text), 'discarded', now())`,
		org.String())
	id := fmt.Sprint(f.count(t, `SELECT id FROM river.river_job WHERE kind = 'forget'`))
	require.Equal(t, map[string]any{"id": id, "retried": true}, o.object("jobs", "retry", "--id", id, "--cell", "main", "--as", "ada"))
	require.Equal(t, 1, f.count(t, `SELECT count(*) FROM river.river_job WHERE kind = 'forget' AND state = 'available'`))
	newest := o.list("audit", "list", "--org", org.String())[0]
	require.Equal(t, "job.retried", newest["action"])
	require.Equal(t, id, newest["target"])
	require.Contains(t, newest["actor_id"], "ada")
}
