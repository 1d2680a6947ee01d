package callbacks_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	edge "github.com/parley-chat/parley/internal/edge/callbacks"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// side is an organization and the cell in which it lives.
type side struct {
	*factory.World

	org  orgs.ID
	name string
}

// TestIngress_NumberChangesHands_EachCallbackWithItsOwner moves a number between organizations of
// two cells while callbacks arrive at two processes whose caches of the directory differ. Each
// callback must be stored once, for the organization that had the number then.
func TestIngress_NumberChangesHands_EachCallbackWithItsOwner(t *testing.T) {
	t.Parallel()
	const handovers, pushes, number = 200, 6, "100000000000042"
	s := newFixture(t)
	here, _ := s.Org(t)
	there, _ := s.other.Org(t)
	from, to := side{s.World, here, "here"}, side{s.other, there, "there"}
	ingresses := []*edge.Ingress{s.ingress, edge.New(edge.Deps{
		Cells:     map[string]*cell.Cell{"first": s.Cell, "second": s.other.Cell},
		Directory: directory.New(s.DB, s.Clock), Provider: s.Network, Logger: canary.Logger(t),
	}).WithTimeout(patience)}
	from.Attach(t, from.org, number, nil)
	wanted := map[string]string{} // the owner that a message must have; "" for any
	for handover := range handovers {
		var done atomic.Bool
		var moving sync.WaitGroup
		move := func() {
			for range rand.IntN(2_000) {
				runtime.Gosched()
			}
			if _, err := from.Accounts.Disconnect(t.Context(), from.org, audit.Operator(), number, nil); err != nil {
				t.Errorf("disconnect: %v", err)
				return
			}
			to.Attach(t, to.org, number, nil)
			done.Store(true)
		}
		begins := rand.IntN(pushes)
		for push := range pushes {
			if push == begins {
				moving.Go(move)
			}
			message, after := fmt.Sprintf("wamid.%d.%d.", handover, push), done.Load()
			one := body(t, statuses("200000000000042", number, message))
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, edge.Path, bytes.NewReader(one))
			request.Header.Set("X-Hub-Signature-256", sign(one, canary.AppSecret))
			answer := httptest.NewRecorder()
			ingresses[push%2].ServeHTTP(answer, request)
			require.Equal(t, http.StatusOK, answer.Code)
			switch {
			case after:
				wanted[message] = to.name
			case push < begins:
				wanted[message] = from.name
			default:
				wanted[message] = ""
			}
		}
		moving.Wait()
		from, to = to, from
	}
	found := s.whereabouts(t, map[string]*factory.World{"here": s.World, "there": s.other})
	certain := 0
	for message, whose := range wanted {
		require.Len(t, found[message], 1, message)
		if whose != "" {
			certain++
			require.Equal(t, whose, found[message][0], message)
		}
	}
	require.Greater(t, certain, handovers/10, "the interleavings must be of all kinds")
	require.Less(t, certain, handovers*pushes)
}

var messageID = regexp.MustCompile(`wamid\.[0-9]+\.[0-9]+\.`)

// whereabouts returns the organizations for which each message is stored.
func (s *fixture) whereabouts(t *testing.T, worlds map[string]*factory.World) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, world := range worlds {
		bodies, err := postgres.Many[[]byte](t.Context(), world.DB.System("test"), `SELECT body FROM callbacks`, nil)
		require.NoError(t, err)
		for _, one := range bodies {
			message := string(messageID.Find(one))
			found[message] = append(found[message], name)
		}
	}
	for _, one := range s.quarantined(t) {
		message := string(messageID.Find(one.Body))
		found[message] = append(found[message], "quarantine")
	}
	return found
}
