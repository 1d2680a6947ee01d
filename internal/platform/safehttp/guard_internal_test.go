//go:build linux

package safehttp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is a listener that counts the connections to each address.
type watched struct {
	net.Listener

	seen *sync.Map
}

func (w watched) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err == nil {
		addr := conn.LocalAddr().(*net.TCPAddr).AddrPort()
		count, _ := w.seen.LoadOrStore(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), new(atomic.Int64))
		count.(*atomic.Int64).Add(1)
	}
	return conn, err
}

// network is a machine that has every address, with servers on the ports of the tests.
type network struct {
	a    *authority
	seen sync.Map
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{a: newAuthority(t)}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") }),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{n.a.issue(t, time.Now().Add(time.Hour), "hooks.example.com", "8.8.8.8", "8.8.4.4")},
			MaxVersion:   tls.VersionTLS12, // sessions are resumed without costly key exchange
		},
	}
	quiet(t, server)
	server.SetKeepAlivesEnabled(false) // so that each Post makes a new connection
	for _, port := range []string{"443", "8443", "22", "25", "1023", "3128", "6379", "9200", "8080"} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":"+port)
		require.NoError(t, err)
		go server.ServeTLS(watched{listener, &n.seen}, "", "")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":80")
	require.NoError(t, err)
	go server.Serve(watched{listener, &n.seen})
	t.Cleanup(func() { server.Close() })
	return n
}

// connections returns and resets the number of connections to public and to other addresses.
func (n *network) connections() (public, others map[netip.Addr]int) {
	public, others = map[netip.Addr]int{}, map[netip.Addr]int{}
	n.seen.Range(func(key, count any) bool {
		addr := key.(netip.AddrPort).Addr()
		if where := others; registered(addr) {
			where[addr] += int(count.(*atomic.Int64).Load())
		} else {
			public[addr] += int(count.(*atomic.Int64).Load())
		}
		n.seen.Delete(key)
		return true
	})
	return public, others
}

func unguarded(guard, string, string, syscall.RawConn) error { return nil }

// Each hostile URL is posted to three times: with all checks, without the check of the URL, and
// without any check. The last one connects, which shows that the test would see a connection.
func TestGuard_HostileURLs_NoConnection(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	n := newNetwork(t)
	config := Config{Timeout: patience, Resolver: names(func(name string, v6 bool) []netip.Addr {
		switch {
		case v6 && strings.HasSuffix(name, ".example.com."):
			return []netip.Addr{}
		case v6:
			return []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("fd00:ec2::254")}
		default:
			return []netip.Addr{netip.MustParseAddr("10.0.0.7")}
		}
	})}
	c := build(config, n.a.pool(), guard.control)
	for _, raw := range append(hostile(), innocent...) {
		_, err := c.Post(t.Context(), raw, nil, []byte("{}"))
		require.Equal(t, &Failure{Code: BlockedAddress}, err, "%q", raw)
	}
	public, others := n.connections()
	require.Empty(t, public)
	require.Empty(t, others)

	tried := 0
	past := func(c *Client) {
		tried = 0
		var group sync.WaitGroup
		for _, raw := range append(hostile(), innocent...) {
			if u, err := url.Parse(raw); err == nil {
				tried++
				group.Go(func() { _, _ = c.post(t.Context(), u, nil, []byte("{}")) })
			}
		}
		group.Wait()
	}
	past(c)
	public, others = n.connections()
	require.Empty(t, others)
	t.Logf("%d URLs of %d parse; with the guard alone: connections to public addresses %v, to others %v", tried, len(hostile())+len(innocent), public, others)

	past(build(config, n.a.pool(), unguarded))
	_, others = n.connections()
	t.Logf("without: connections to %d addresses that are not public", len(others))
	for _, text := range []string{
		"127.0.0.1", "127.1.2.3", "10.0.0.1", "10.0.0.7", "100.64.0.0", "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.168.1.1", "198.18.0.0",
		"203.0.113.7", "::1", "fd00:ec2::254", "64:ff9b::8.8.8.8", "2002:7f00:1::1", "2001:db8::1", "5f00::1", "fec0::1", "100::1",
	} {
		require.Positive(t, others[netip.MustParseAddr(text)], "the stage cannot show a connection to %s", text)
	}
	require.Greater(t, len(others), 60)
}

// A name resolves to another address each time.
func TestGuard_Rebinding_NoConnection(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	n := newNetwork(t)
	list := func(texts ...string) []netip.Addr {
		addresses := []netip.Addr{}
		for _, text := range texts {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		return addresses
	}
	v4 := [][]netip.Addr{
		list("8.8.8.8"), list("10.0.0.7"), list("8.8.8.8", "127.0.0.1"), list("169.254.169.254", "1.1.1.1"), list("192.168.1.1", "100.64.0.1"), list(),
	}
	v6 := [][]netip.Addr{list(), list("::1"), list("2606:4700::1111"), list("fd00:ec2::254", "::1"), list("64:ff9b::a00:1", "2606:4700::1111")}
	var asked4, asked6 atomic.Int64
	config := Config{Timeout: patience, Resolver: names(func(_ string, six bool) []netip.Addr {
		if six {
			return v6[asked6.Add(1)%int64(len(v6))]
		}
		return v4[asked4.Add(1)%int64(len(v4))]
	})}
	run := func(c *Client, attempts int64) (answered, blocked int64) {
		var left, ok, stopped atomic.Int64
		left.Store(attempts)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for left.Add(-1) >= 0 {
					_, err := c.Post(t.Context(), "https://hooks.example.com/", nil, []byte("{}"))
					if err == nil {
						ok.Add(1)
					} else if failure, _ := errors.AsType[*Failure](err); failure.Code == BlockedAddress {
						stopped.Add(1)
					}
				}
			})
		}
		group.Wait()
		return ok.Load(), stopped.Load()
	}
	answered, blocked := run(build(config, n.a.pool(), guard.control), 1000)
	public, others := n.connections()
	t.Logf("%d answered, %d blocked; connections %v", answered, blocked, public)
	require.Empty(t, others)
	require.Greater(t, answered, int64(300))
	require.Greater(t, blocked, int64(100))

	run(build(config, n.a.pool(), unguarded), 60)
	_, others = n.connections()
	require.Positive(t, others[netip.MustParseAddr("10.0.0.7")]+others[netip.IPv6Loopback()], "without the guard there is a connection")
}

func TestGuard_OwnAddresses_Refused(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	n := newNetwork(t)
	c := build(Config{}, n.a.pool(), guard.control)
	_, err := c.Post(t.Context(), "https://8.8.4.4/", nil, nil)
	require.NoError(t, err)
	require.NoError(t, ownAddress(netip.MustParseAddr("8.8.4.4")))
	_, err = c.Post(t.Context(), "https://8.8.4.4/", nil, nil)
	require.Equal(t, &Failure{Code: BlockedAddress}, err)
	_, err = c.post(t.Context(), &url.URL{Scheme: "https", Host: "8.8.4.4"}, nil, nil)
	require.Equal(t, &Failure{Code: BlockedAddress}, err)
	require.EqualError(t, c.CheckURL("https://8.8.4.4/"), "must lead to a public address")
	_, err = c.Post(t.Context(), "https://8.8.8.8/", nil, nil)
	require.NoError(t, err, "the next address belongs to another machine")
	public, _ := n.connections()
	require.Equal(t, map[netip.Addr]int{netip.MustParseAddr("8.8.4.4"): 1, netip.MustParseAddr("8.8.8.8"): 1}, public)

	c = build(Config{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("8.8.4.4/32")}}, n.a.pool(), guard.control)
	_, err = c.Post(t.Context(), "https://8.8.4.4/", nil, nil)
	require.NoError(t, err, "the operator allowed it")
}

// The environment of the test names a proxy.
func TestGuard_ProxyInEnvironment_NotUsed(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	n := newNetwork(t)
	c := build(Config{}, n.a.pool(), guard.control)
	answer, err := c.Post(t.Context(), "https://8.8.8.8/", nil, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.Status)
	_, others := n.connections()
	require.Empty(t, others)

	c = build(Config{}, n.a.pool(), unguarded)
	c.transport.Proxy = http.ProxyFromEnvironment
	_, err = c.Post(t.Context(), "https://8.8.8.8/", nil, nil)
	require.Error(t, err)
	_, others = n.connections()
	require.Equal(t, map[netip.Addr]int{netip.MustParseAddr("127.0.0.1"): 1}, others, "net/http itself uses the proxy")
}

// Addresses that listen, that refuse, and that do not answer give the same error.
func TestGuard_InsideAddresses_SameAnswer(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	n := newNetwork(t)
	c := build(Config{Resolver: names(func(name string, six bool) []netip.Addr {
		if six || !strings.HasPrefix(name, "hooks") {
			return []netip.Addr{}
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.7")}
	})}, n.a.pool(), guard.control)
	for _, target := range []string{
		"https://10.0.0.7/", "https://10.0.0.7:9999/", "https://hooks.example.com/", "https://hooks.example.com:9999/", "https://hooks.example.com:6379/",
	} {
		answer, err := c.Post(t.Context(), target, nil, nil)
		require.Equal(t, &Failure{Code: BlockedAddress}, err, target)
		require.EqualError(t, err, "the URL does not lead to a public address")
		require.Equal(t, Answer{Took: answer.Took}, answer)
	}
	public, others := n.connections()
	require.Empty(t, public)
	require.Empty(t, others)
}
