package onboarding_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// logged collects the lines of a log.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// TestLog_ProviderFails_NoSecret: the provider fails at each call, in several ways. The log says so without the link's
// token, the code and the granted token.
func TestLog_ProviderFails_NoSecret(t *testing.T) {
	t.Parallel()
	ways := map[string]func(http.ResponseWriter, *http.Request){
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"not JSON":  func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.String(), http.StatusBadGateway) },
		"an error that repeats the request": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"code":100,"message":%q}}`, r.URL.String()+r.Header.Get("Authorization"))
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1"+r.URL.String(), http.StatusFound)
		},
	}
	calls := []string{"/oauth/access_token", "/debug_token", "/phone_numbers", "/subscribed_apps"}
	for way, fail := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			w := factory.New(t)
			w.Logger = canary.Logger(t, slog.NewTextHandler(log, nil))
			f := setupIn(t, w)
			for i, call := range calls {
				secrets := f.fails(t, call, fail)
				require.Equal(t, i+1, strings.Count(log.String(), "onboarding.refused"), call)
				for _, secret := range secrets {
					require.NotContains(t, log.String(), secret, call)
				}
			}
		})
	}
}

// fails goes as far as a call that fails, and returns the secrets of the visit.
func (f *fixture) fails(t *testing.T, call string, fail func(http.ResponseWriter, *http.Request)) (secrets []string) {
	t.Helper()
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	state := b.dialog(t, link)
	code, number, _ := f.Network.SignUp(t, object{})
	secrets = []string{strings.TrimPrefix(link.SetupURL, factory.PublicURL+"/setup/"), code, strings.TrimPrefix(state, link.ID.String()+".")}
	var mu sync.Mutex
	f.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		sent := fmt.Sprint(r.URL.Query(), r.Header.Get("Authorization"))
		mu.Lock()
		secrets = append(secrets, regexp.MustCompile(`EAAS[A-Z2-7]{52}`).FindAllString(sent, -1)...)
		mu.Unlock()
		if strings.HasSuffix(r.URL.Path, call) {
			fail(w, r)
			return
		}
		network.ServeHTTP(w, r)
	})
	defer f.Network.Twist(nil)
	shown := b.back(t, state, code)
	if shown.title() == numberTitle {
		shown = b.post(t, shown.at, url.Values{"phone_number_id": {number}})
	}
	require.Equal(t, "The messaging network did not let us in", shown.title(), shown.body)
	mu.Lock()
	defer mu.Unlock()
	require.True(t, call == "/oauth/access_token" || len(secrets) > 3, "no granted token was seen")
	return secrets
}
