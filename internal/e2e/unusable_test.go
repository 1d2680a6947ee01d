package e2e_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// emptyDatabase makes a database without tables.
func (f *fixture) emptyDatabase(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(f.missingDatabase(t))
	require.NoError(t, err)
	server := *address
	server.Path = "/postgres"
	conn, err := pgx.Connect(t.Context(), server.String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), `CREATE DATABASE "`+strings.TrimPrefix(address.Path, "/")+`"`)
	require.NoError(t, err)
	return address.String()
}

// A database that cannot be used is told by the same words in /readyz, in the log, by the doctor and by commands.
func TestUnusableDatabase_SameWordsEverywhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	absent := f.missingDatabase(t)
	address, err := url.Parse(absent)
	require.NoError(t, err)
	missing := strings.TrimPrefix(address.Path, "/")
	for name, broken := range map[string]struct{ url, said, command string }{
		"absent": {
			url: absent, command: "migrate",
			said: `the database "` + missing + "\" does not exist: run `createdb " + missing + "` and `parley migrate`, or correct PARLEY_DATABASE_URL",
		},
		"down": {
			url: "postgres://parley:" + password + "@" + proc.FreeAddress(t) + "/parley", command: "migrate",
			said: "the database does not answer: start PostgreSQL or correct PARLEY_DATABASE_URL",
		},
		"without tables": {url: f.emptyDatabase(t), said: " migrations missing: run `parley migrate`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := f.settings().With(proc.Settings{"PARLEY_DATABASE_URL": broken.url, "PARLEY_CELLS": "main"})
			process := f.launch(t, settings)
			shown, status := process.readiness(t)
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Contains(t, shown["main"], broken.said)
			inLog := strings.ReplaceAll(broken.said, `"`, `\"`)
			proc.Eventually(t, proc.Patience, "the log says why the cell is not ready", func() bool {
				for line := range strings.Lines(process.Log(t)) {
					if strings.Contains(line, "cell.not_ready") && strings.Contains(line, inLog) {
						return true
					}
				}
				return false
			})
			found, fix, _ := strings.Cut(broken.said, ": ")
			checked := failedChecks(proc.Run(t, settings, "doctor"))
			require.Len(t, checked, 1)
			require.Contains(t, checked[0], found)
			require.Contains(t, checked[0], "→ "+fix)
			commands := [][]string{{"admin", "org", "list"}, {"admin", "org", "create", "--name", "Acme"}}
			if broken.command != "" {
				commands = append(commands, []string{broken.command})
			}
			for _, command := range commands {
				refused := proc.Run(t, settings, command...)
				require.Equal(t, 1, refused.Code, command)
				require.Contains(t, refused.Stderr, "parley: "+strings.TrimPrefix(shown["main"], "cell main: "), command)
				require.NotContains(t, refused.Stderr, password)
			}
		})
	}
}

// `parley dev` tells a user that PostgreSQL refuses from a PostgreSQL that does not answer.
func TestDev_UserRefusedOrServerDown_ToldApart(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(newFixture(t).missingDatabase(t))
	require.NoError(t, err)
	address.User = url.UserPassword("nobody", password)
	for database, said := range map[string]string{
		address.String(): "the database does not let this user in: correct the user or the password in PARLEY_DATABASE_URL, or pg_hba.conf",
		"postgres://parley:" + password + "@" + proc.FreeAddress(t) + "/parley": "the database does not answer: start PostgreSQL or correct PARLEY_DATABASE_URL",
	} {
		refused := proc.Run(t, proc.Settings{"PARLEY_DATABASE_URL": database}, "dev", "--addr", "127.0.0.1:0")
		require.Equal(t, 1, refused.Code)
		require.Contains(t, refused.Stderr, said)
		require.NotContains(t, refused.Stderr, password)
	}
}

// The number of missing migrations is the number that `parley migrate` applies, wherever it is shown.
func TestMissingMigrations_OneCountEverywhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	settings := proc.Settings{"PARLEY_DATABASE_URL": f.emptyDatabase(t), "PARLEY_MASTER_KEY": canary.Master}
	missing := regexp.MustCompile(`\b([0-9]+) migrations missing`)
	count := func(output string) int {
		t.Helper()
		found := missing.FindAllStringSubmatch(output, -1)
		require.Len(t, found, 1, output)
		number, err := strconv.Atoi(found[0][1])
		require.NoError(t, err)
		return number
	}
	process := f.launch(t, settings.With(proc.Settings{"PARLEY_CELLS": "main"}))
	shown, _ := process.readiness(t)
	doctor, command := proc.Run(t, settings, "doctor"), proc.Run(t, settings, "admin", "org", "list")
	migrated := proc.Run(t, settings, "migrate")
	require.Equal(t, 0, migrated.Code, migrated.Stderr)
	applied := 0
	for _, part := range regexp.MustCompile(`(?m)^(?:directory|cell main): ([0-9]+) migrations applied$`).FindAllStringSubmatch(migrated.Stdout, -1) {
		number, err := strconv.Atoi(part[1])
		require.NoError(t, err)
		applied += number
	}
	require.Greater(t, applied, 20, migrated.Stdout)
	require.Equal(t, []int{applied, applied, applied}, []int{count(shown["main"]), count(doctor.Stdout), count(command.Stderr)})
}

// The doctor and /readyz warn while no process does background work. The process stays ready.
func TestNoWorker_WarnedUntilOneRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	process := f.serve(t, proc.Settings{"PARLEY_CELLS": "main"})
	const warning = "no worker is alive, so nothing is sent, received or delivered"
	ready := func() string {
		got, err := process.ask(t.Context(), "/readyz")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		return string(got.body)
	}
	require.Contains(t, ready(), `"main":"`+warning+": run `parley work`")
	diagnosis := proc.Run(t, f.settings(), "doctor")
	require.Equal(t, 0, diagnosis.Code, diagnosis.Stdout)
	require.Contains(t, diagnosis.Stdout, "WARN worker: "+warning+" → run `parley work`\n")
	require.Contains(t, diagnosis.Stdout, "WARN worker of cell second: ")
	proc.Eventually(t, proc.Patience, "the log of serve warns, too", func() bool { return strings.Contains(process.Log(t), "cell.not_worked") })

	proc.Start(t, f.settings().With(proc.Settings{"PARLEY_CELLS": "main", "PARLEY_OPERATOR_LISTEN": proc.FreeAddress(t)}), "work")
	proc.Eventually(t, proc.Patience, "no warning any more", func() bool { return !strings.Contains(ready(), warning) })
	diagnosis = proc.Run(t, f.settings(), "doctor")
	require.Contains(t, diagnosis.Stdout, "ok   worker: ")
	require.Contains(t, diagnosis.Stdout, "WARN worker of cell second: ")
}

// A process with another master key ends. The doctor says the same, and is not misled by a database that answers.
func TestWrongKey_ToldByServeAndDoctor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.serve(t, nil).stop(t)
	other := f.settings().With(proc.Settings{"PARLEY_MASTER_KEY": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))})
	ended := proc.Run(t, other.With(proc.Settings{"PARLEY_LISTEN": "127.0.0.1:0", "PARLEY_OPERATOR_LISTEN": "127.0.0.1:0"}), "serve")
	require.Equal(t, 1, ended.Code)
	require.Contains(t, ended.Stderr, "PARLEY_MASTER_KEY does not open what is stored")
	checked := failedChecks(proc.Run(t, other, "doctor"))
	require.Len(t, checked, 1)
	require.Contains(t, checked[0], "FAIL master key: does not open what is stored")
}
