package callbacks_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	edge "github.com/parley-chat/parley/internal/edge/callbacks"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// stalls opens a connection from an address, announces a body of 4 MiB and sends some of it.
func stalls(t *testing.T, from, address string, sent int) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from + ":0"))}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: parley\r\nContent-Length: %d\r\n\r\n", edge.Path, 4<<20)
	require.NoError(t, err)
	_, _ = conn.Write(make([]byte, sent)) // the server may have refused already
}

// TestIngress_StalledConnections_GenuineCallbacksStored has strangers, and the provider's own address, announce large bodies and
// stall. In a proof
// 500 do, again and again, and genuine callbacks must take at most twice as long.
func TestIngress_StalledConnections_GenuineCallbacksStored(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org, _ := s.Org(t)
	account := s.connected(t, org)
	server := httptest.NewServer(s.ingress)
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	push := func(count int) (took []time.Duration) {
		for n := range count {
			one := body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, fmt.Sprintf("wamid.%d.%d", len(took), n)))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+edge.Path, bytes.NewReader(one))
			require.NoError(t, err)
			request.Header.Set("X-Hub-Signature-256", sign(one, canary.AppSecret))
			began := time.Now()
			answer, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took
	}
	count := proof.Sized(20, 1_000)
	quiet := push(count)
	for _, from := range []string{"127.0.0.2", "127.0.0.1"} {
		for range proof.Sized(100, 500) {
			stalls(t, from, address, 0)
		}
		for range proof.Sized(40, 100) {
			stalls(t, from, address, 3<<20)
		}
	}
	beside := push(count)
	t.Logf("p99 quiet %s, beside stalled connections %s", quiet[count*99/100], beside[count*99/100])
	if proof.Full() {
		require.LessOrEqual(t, beside[count*99/100], 2*quiet[count*99/100])
	}
}
