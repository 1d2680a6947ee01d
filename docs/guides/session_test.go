package guides_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// sessions are the documents whose blocks are run, each with its blocks that run until they are stopped, and what those
// print when they are ready.
var sessions = map[string]map[string]string{
	"errors.md":    {},
	"platform.md":  {},
	"receiving.md": {},
	"sending.md":   {},
	"simulator.md": {"start": "The simulator listens on"},
	"templates.md": {},
	"webhooks.md":  {"receive": "receiving on", "listen": "signing secret: "},
}

// TestGuides runs the blocks of each guide in order against one `parley dev`, and compares what they print with what the
// guide shows.
func TestGuides(t *testing.T) {
	t.Parallel()
	dev := newDev(t)
	for name, untilStopped := range sessions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, dev, untilStopped)
			fences := fencesOf(t, name)
			for i, one := range fences {
				switch {
				case one.mark == "event":
					s.arrives(one)
				case one.mark == "prints":
					s.prints(one)
				case one.mark != "run" || one.language != "sh": // an answer, or a program, which has a test of its own
				case untilStopped[one.name] != "":
					s.start(one)
				default:
					s.run(one, answers(fences[i+1:]))
				}
			}
			if name == "webhooks.md" {
				require.True(t, s.program.posted("/webhooks contact.created", map[string]any{"id": "evt_1"}), "receive forwards")
			}
		})
	}
}

// answers are the blocks without a mark that follow: what the command above them prints.
func answers(following []fence) []fence {
	end := slices.IndexFunc(following, func(one fence) bool { return one.mark != "" || one.language == "sh" })
	if end < 0 {
		return following
	}
	return following[:end]
}

// dev is a running `parley dev`.
type dev struct {
	environment []string
	// events are all of the demo organization.
	events *inbox
}

func newDev(t *testing.T) *dev {
	t.Helper()
	database := missingDatabase(t)
	settings := proc.Settings{
		"PARLEY_DATABASE_URL": pgtest.Patient(t, database), "PARLEY_DATABASE_CONNS": "8",
		"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
		"XDG_CACHE_HOME": t.TempDir(), // where files of messages are stored
	}
	start := func() *proc.Process { return proc.Start(t, settings, "dev", "--json", "--addr", "127.0.0.1:0") }
	process := start()
	line := process.FirstLine(t)
	for try := 1; line == "" && proc.Hindered(process.Log(t), try); try++ {
		process = start()
		line = process.FirstLine(t)
	}
	var ready map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &ready))
	d := &dev{events: newInbox(t), environment: []string{
		"PARLEY_DATABASE_URL=" + database,
		"PARLEY_URL=" + ready["base_url"], "PARLEY_KEY=" + ready["api_key"],
		"PARLEY_NUMBER=" + ready["phone_number_id"], "PARLEY_PHONE=" + ready["simulator_url"],
	}}
	draft, err := json.Marshal(map[string]any{"url": d.events.url, "events": events.Catalogue()})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ready["base_url"]+"/webhook_subscriptions", bytes.NewReader(draft))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+ready["api_key"])
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusCreated, response.StatusCode)
	return d
}

// missingDatabase is the address of a database that does not exist yet.
func missingDatabase(t *testing.T) string {
	t.Helper()
	server := cmp.Or(os.Getenv("PARLEY_TEST_DATABASE_URL"), "postgres://postgres@127.0.0.1:5432/postgres")
	address, err := url.Parse(server)
	require.NoError(t, err)
	name := "parley_guides_" + rand.Text()
	address.Path = "/" + name
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, server)
		require.NoError(t, err)
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %q WITH (FORCE)`, name))
		require.NoError(t, err)
	})
	return address.String()
}

// inbox is a program that is posted events.
type inbox struct {
	url string

	mu    sync.Mutex
	names []string // the path and the type of event
	said  []any
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	i := &inbox{}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.names = append(i.names, r.URL.Path+" "+r.Header.Get("X-Svc-Event"))
	i.said = append(i.said, last(string(body)))
	w.WriteHeader(http.StatusAccepted)
}

// posted tells whether an event arrived that has what is shown.
func (i *inbox) posted(name string, shown any) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for at := range i.names {
		if i.names[at] == name && differs(shown, i.said[at], "") == "" {
			return true
		}
	}
	return false
}

// session is the terminal of a reader: variables and files of one block are there for the next.
type session struct {
	t            *testing.T
	dev          *dev
	untilStopped map[string]string
	// program is that of the reader, at 127.0.0.1:3000 in the guides.
	program *inbox
	// here replaces the ports of the guides by free ones.
	here        *strings.Replacer
	dir         string
	environment []string
	running     map[string]*output
}

func newSession(t *testing.T, d *dev, untilStopped map[string]string) *session {
	t.Helper()
	s := &session{t: t, dev: d, untilStopped: untilStopped, program: newInbox(t), dir: t.TempDir(), running: map[string]*output{}}
	network, program := proc.FreeAddress(t), strings.TrimPrefix(s.program.url, "http://")
	s.here = strings.NewReplacer(
		"127.0.0.1:9000", proc.FreeAddress(t), "127.0.0.1:3000", program, "127.0.0.1:8080", program,
		"127.0.0.1:8090", network, "parley simulator", "parley simulator --addr "+network,
	)
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "work"), 0o700))
	// curl ends with status 22 when an answer is neither 2xx nor 3xx.
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, ".curlrc"), []byte("fail-with-body\n"), 0o600))
	s.environment = append(os.Environ(), d.environment...)
	s.environment = append(s.environment, "CURL_HOME="+s.dir,
		"PATH="+filepath.Dir(proc.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	return s
}

// command runs a block with the variables that the blocks before it have set, and keeps those that it sets.
func (s *session) command(one fence) *exec.Cmd {
	s.t.Helper()
	block := filepath.Join(s.dir, one.name+".sh")
	require.NoError(s.t, os.WriteFile(block, []byte(s.here.Replace(one.text)), 0o600))
	command := exec.Command("bash", "-euo", "pipefail", "-c",
		`[[ ! -e ../variables ]] || . ../variables; trap 'export -p >../variables' EXIT; set -a; . "$1"`, "bash", block)
	command.Dir, command.Env = filepath.Join(s.dir, "work"), s.environment
	return command
}

// changes are what tells that a block must not be run twice.
var changes = []string{"--json", " -d ", " -F ", " -X ", "parley "}

// run runs a block to its end. One that only reads is run until it prints what the guide shows: things happen a moment
// after the command that causes them.
func (s *session) run(one fence, answers []fence) {
	s.t.Helper()
	wrong := ""
	defer func() {
		if wrong != "" {
			s.t.Logf("line %d, %s: %s", one.line, one.name, wrong)
		}
	}()
	asShown := func() bool {
		wrong = s.fault(one, answers)
		return wrong == ""
	}
	if slices.ContainsFunc(changes, func(change string) bool { return strings.Contains(one.text, change) }) {
		require.True(s.t, asShown(), "line %d, %s", one.line, one.name)
		return
	}
	proc.Eventually(s.t, proc.Patience, one.name, asShown)
}

// fault runs a block and tells how its outcome differs from what the guide shows, or "".
func (s *session) fault(one fence, answers []fence) string {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	command := s.command(one)
	command.Stdout, command.Stderr = &stdout, &stderr
	_ = command.Run() // the status tells it
	printed, exits := stdout.String()+stderr.String(), one.exits
	for _, answer := range answers {
		if answer.language == "text" {
			if line := lacks(answer.text, printed); line != "" {
				return fmt.Sprintf("it does not print %q, but:\n%s", line, printed)
			}
			continue
		}
		shown := decoded(s.t, answer)
		if refused, _ := shown.(map[string]any)["error"]; refused != nil {
			exits = 22
		}
		if difference := differs(shown, last(stdout.String()), ""); difference != "" {
			return fmt.Sprintf("%s:\n%s", difference, printed)
		}
	}
	if status := command.ProcessState.ExitCode(); status != exits {
		return fmt.Sprintf("it ends with status %d, not %d:\n%s", status, exits, printed)
	}
	return ""
}

// start runs a block until the guide ends, and returns when it is ready.
func (s *session) start(one fence) {
	s.t.Helper()
	printed := &output{}
	command := s.command(one)
	command.Stdout, command.Stderr = printed, printed
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(s.t, command.Start())
	exited := make(chan struct{})
	go func() {
		_ = command.Wait() // it is stopped
		close(exited)
	}()
	s.t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM) // it may be gone already
		<-exited
	})
	proc.Eventually(s.t, proc.Patience, one.name+" is ready", func() bool {
		select {
		case <-exited:
			require.FailNow(s.t, one.name+" ended", "%s", printed)
		default:
		}
		return strings.Contains(printed.String(), s.untilStopped[one.name])
	})
	s.running[one.name] = printed
}

// prints waits until a block that still runs has printed what the guide shows.
func (s *session) prints(one fence) {
	s.t.Helper()
	require.Contains(s.t, s.running, one.name)
	proc.Eventually(s.t, proc.Patience, one.text, func() bool { return lacks(one.text, s.running[one.name].String()) == "" })
}

// arrives waits for an event that has what the guide shows.
func (s *session) arrives(one fence) {
	s.t.Helper()
	shown := decoded(s.t, one)
	proc.Eventually(s.t, proc.Patience, one.name+" as in line "+fmt.Sprint(one.line), func() bool {
		return s.dev.events.posted("/ "+one.name, shown)
	})
}
