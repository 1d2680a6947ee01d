// Package guides runs what the guides show: each example and each command, as they are printed. A comment above a block
// says what becomes of it:
//
//	<!-- run: NAME -->           a command, run after those above it in the same terminal; or a program
//	<!-- run: NAME, exits 1 -->  a command that ends with this status
//	<!-- event: TYPE -->         an event of this type arrives that has these fields
//	<!-- prints: NAME -->        a command that still runs prints these lines
//
// A block of JSON or text without a comment is what the command above it prints. In both … stands for anything, and there
// may be more than is shown. An answer with "error" is a refusal; every other answer of the API is 2xx or 3xx.
package guides_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/signature"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

func TestMain(m *testing.M) { os.Exit(proc.Main(m)) }

// block is what stands below a mark of this name.
func block(t *testing.T, name string) string {
	t.Helper()
	for _, one := range fencesOf(t, "webhooks.md") {
		if one.name == name {
			return one.text
		}
	}
	require.FailNow(t, "no example", "%s", name)
	return ""
}

// program writes an example into a directory of its own and returns the command that runs it.
func program(t *testing.T, name string) []string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, code string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(code), 0o600))
		return path
	}
	switch code := block(t, name); filepath.Ext(name) {
	case ".go":
		binary := filepath.Join(dir, "receiver")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, write(name, code))
		build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
		output, err := build.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return []string{binary}
	case ".ts":
		if stripsTypes(t) {
			return []string{"node", "--experimental-strip-types", "--no-warnings", write("receiver.mts", code)}
		}
		return []string{"node", write("receiver.mjs", withoutTypes(code))}
	default:
		return []string{"python3", write(name, code)}
	}
}

// stripsTypes tells whether this Node runs TypeScript itself, as it does since 22.6.
func stripsTypes(t *testing.T) bool {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	require.NoError(t, err, "the guide's TypeScript needs Node")
	var major, minor int
	_, err = fmt.Sscanf(string(output), "v%d.%d", &major, &minor)
	require.NoError(t, err)
	return major > 22 || major == 22 && minor >= 6
}

// withoutTypes knows the few annotations of the example; Node refuses any that it missed.
func withoutTypes(code string) string {
	return regexp.MustCompile(`: (string|boolean|Buffer(\[\])?)|<string>`).ReplaceAllString(code, "")
}

// output collects what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs a command until the test ends and waits until it listens.
func start(t *testing.T, address string, environment []string, command ...string) *output {
	t.Helper()
	printed := &output{}
	process := exec.Command(command[0], command[1:]...)
	process.Env = append(os.Environ(), environment...)
	process.Stdout, process.Stderr = printed, printed
	require.NoError(t, process.Start(), "%s is missing", command[0])
	exited := make(chan struct{})
	go func() {
		_ = process.Wait() // it is killed
		close(exited)
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill() // it may be gone already
		<-exited
	})
	proc.Eventually(t, proc.Patience, "a listener at "+address, func() bool {
		select {
		case <-exited:
			require.FailNow(t, "it ended", "%s", printed)
		default:
		}
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
	return printed
}

// post answers with the status that the receiver gave.
func post(t *testing.T, address, uid string, body []byte, header string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("X-Svc-Event", "contact.created")
	request.Header.Set("X-Svc-Event-Uid", uid)
	if header != "" {
		request.Header.Set(signature.Header, header)
	}
	client := &http.Client{Timeout: proc.Patience}
	client.Transport = &http.Transport{DisableKeepAlives: true}
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func TestGuide_Receivers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"receiver.go", "receiver.ts", "receiver.py"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := program(t, name)
			address := proc.FreeAddress(t)
			_, port, err := net.SplitHostPort(address)
			require.NoError(t, err)

			unset := exec.CommandContext(t.Context(), command[0], command[1:]...)
			unset.Env = append(os.Environ(), "PORT="+port, "WEBHOOK_SECRETS=")
			said, err := unset.CombinedOutput()
			require.Error(t, err, "nobody may sign with an empty secret")
			require.Contains(t, string(said), "WEBHOOK_SECRETS is not set")

			mine, next, foreign := signature.NewSecret(), signature.NewSecret(), signature.NewSecret()
			printed := start(t, address, []string{"PORT=" + port, "WEBHOOK_SECRETS=" + mine + "," + next}, command...)
			receiver(t, address, printed, mine, next, foreign)
		})
	}
}

// receiver demands of a receiver with the secrets mine and next what the guide promises.
func receiver(t *testing.T, address string, printed *output, mine, next, foreign string) {
	t.Helper()
	body := []byte("{\"id\":\"evt_1\", \"name\":\"Zo\xc3\xab \xff\"}\r\n")
	now := time.Now()
	valid := signature.Sign(now, body, mine)
	stamp, v1, _ := strings.Cut(valid, ",")
	for name, header := range map[string]string{
		"valid":            valid,
		"the next secret":  signature.Sign(now, body, next),
		"rotated":          signature.Sign(now, body, next, mine),
		"rotated further":  signature.Sign(now, body, foreign, mine),
		"nearly too old":   signature.Sign(now.Add(-280*time.Second), body, mine),
		"nearly too early": signature.Sign(now.Add(300*time.Second), body, mine),
	} {
		require.Equal(t, http.StatusNoContent, post(t, address, name, body, header), name)
	}
	for name, header := range map[string]string{
		"another secret":        signature.Sign(now, body, foreign),
		"an empty secret":       signature.Sign(now, body, ""),
		"an altered body":       signature.Sign(now, append([]byte(" "), body...), mine),
		"old":                   signature.Sign(now.Add(-301*time.Second), body, mine),
		"from the future":       signature.Sign(now.Add(330*time.Second), body, mine),
		"truncated by a byte":   valid[:len(valid)-2],
		"truncated by a digit":  valid[:len(valid)-1],
		"overlong":              valid + "00",
		"an empty signature":    stamp + ",v1=",
		"no signature":          stamp,
		"no time":               v1,
		"an empty time":         "t=," + v1,
		"a first t that is old": "t=1," + valid,
		"a second t":            valid + "," + stamp,
		"two of the same t":     stamp + "," + valid,
		"not hexadecimal":       stamp + ",v1=" + strings.Repeat("zz", 32),
		"no header":             "",
		"nonsense":              "undefined",
	} {
		require.Equal(t, http.StatusUnauthorized, post(t, address, name, body, header), name)
	}
	for range 3 {
		require.Equal(t, http.StatusNoContent, post(t, address, "evt_again", body, valid))
	}
	proc.Eventually(t, proc.Patience, "seven new events", func() bool { return strings.Count(printed.String(), "new contact.created ") == 7 })
	require.Equal(t, 1, strings.Count(printed.String(), "new contact.created evt_again\n"), "an event that comes again is not new")
}
