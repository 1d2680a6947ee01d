package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/signature"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// heard is what a developer's program was posted.
type heard struct {
	mu     sync.Mutex
	posted []*http.Request
	bodies [][]byte
}

func (h *heard) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posted, h.bodies = append(h.posted, r), append(h.bodies, body)
}

// types counts the events by type.
func (h *heard) types() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[string]int{}
	for _, one := range h.posted {
		counts[one.Header.Get("X-Svc-Event")]++
	}
	return counts
}

// listened is a `parley listen` that forwards to a developer's program.
type listened struct {
	*proc.Process
	*heard

	secret string
}

func (f *fixture) listen(t *testing.T, settings proc.Settings, args ...string) listened {
	t.Helper()
	program := &heard{}
	server := httptest.NewServer(program)
	t.Cleanup(server.Close)
	process := proc.Start(t, settings, append([]string{"listen", "--json", "--forward-to", server.URL}, args...)...)
	l := listened{Process: process, heard: program}
	proc.Eventually(t, proc.Patience, "a secret", func() bool {
		_, after, found := strings.Cut(process.Log(t), "signing secret: ")
		l.secret, _, _ = strings.Cut(after, "\n")
		return found && len(l.secret) == signature.SecretLength
	})
	return l
}

// Every event of the catalogue can be made to happen, reaches the program whether Parley posts it or it is read by the
// API, and verifies. Ending the command removes its subscription.
func TestListen_EachTrigger_ReachesTheProgram(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, ready := develop(t, f.missingDatabase(t))
	settings := proc.Settings{
		"PARLEY_URL": ready["base_url"], "PARLEY_KEY": ready["api_key"], "PARLEY_NUMBER": ready["phone_number_id"],
		"PARLEY_PHONE": ready["simulator_url"],
	}
	killed := f.listen(t, settings)
	killed.Kill()
	direct, polled := f.listen(t, settings), f.listen(t, settings, "--poll")
	require.Contains(t, direct.Log(t), "Parley posts events to this machine.")
	require.Contains(t, polled.Log(t), "Deliveries are read by the API, every second.")

	listed := proc.Run(t, settings, "trigger", "--list")
	require.Equal(t, 0, listed.Code)
	names := map[string]bool{}
	for line := range strings.Lines(listed.Stdout) {
		name := strings.Fields(line)[0]
		names[name] = true
		done := proc.Run(t, settings, "trigger", name)
		require.Equal(t, 0, done.Code, "%s: %s%s", name, done.Stdout, done.Stderr)
	}
	for _, one := range events.Catalogue() {
		require.Contains(t, names, string(one))
	}
	for how, l := range map[string]listened{"posted": direct, "read": polled} {
		t.Cleanup(func() { t.Logf("%s: %v", how, l.types()) })
		proc.Eventually(t, proc.Patience, how+": every type of event", func() bool {
			return len(l.types()) == len(events.Catalogue()) && l.types()["message.received"] >= 9
		})
		l.mu.Lock()
		for i, one := range l.posted {
			require.NoError(t, signature.Verify(one.Header.Get(signature.Header), l.bodies[i], []string{l.secret}, time.Now(), time.Hour))
			require.NotEmpty(t, one.Header.Get("X-Svc-Event-Uid"))
			require.Equal(t, "Parley-Webhooks/1.0", one.Header.Get("User-Agent"))
			require.Equal(t, strings.HasPrefix(one.Header.Get("X-Svc-Event"), "customer."), one.Header.Get(signature.Header256) != "")
		}
		l.mu.Unlock()
	}
	caller := &client{base: ready["base_url"], key: ready["api_key"], http: newHTTP()}
	for _, l := range []listened{direct, polled} {
		l.Stop()
		require.Equal(t, 0, l.ExitCode(t, stopWithin))
	}
	left, err := caller.get(t.Context(), "/webhook_subscriptions")
	require.NoError(t, err)
	require.Contains(t, string(left.body), `"data":[]`, "the subscriptions are removed")
	printed, err := os.ReadFile(direct.Files()[0])
	require.NoError(t, err)
	for line := range strings.Lines(string(printed)) {
		var shown struct {
			Verified bool `json:"verified"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &shown))
		require.True(t, shown.Verified)
	}
}

// failed is the provider's code in the event that a message failed; 0 before there is one.
func (h *heard) failed(providerID string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.bodies {
		var event struct {
			Entry []struct {
				Changes []struct {
					Value struct {
						Statuses []struct {
							ID, Status string
							Errors     []struct{ Code int }
						}
					}
				}
			}
		}
		if json.Unmarshal(body, &event) != nil || len(event.Entry) == 0 {
			continue
		}
		for _, status := range event.Entry[0].Changes[0].Value.Statuses {
			if status.ID == providerID && status.Status == "failed" {
				return status.Errors[0].Code
			}
		}
	}
	return 0
}
