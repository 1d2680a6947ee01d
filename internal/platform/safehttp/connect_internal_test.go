package safehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

func TestPost_BadCertificates_TLSFailure(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	good := a.issue(t, later, "127.0.0.1")
	only := func(version uint16) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: version, MaxVersion: version}
	}
	asking := only(tls.VersionTLS13)
	asking.ClientAuth = tls.RequireAnyClientCert
	askingEarly := only(tls.VersionTLS12)
	askingEarly.ClientAuth = tls.RequireAnyClientCert
	for name, test := range map[string]struct {
		config *tls.Config
		want   error
	}{
		"TLS 1.3":                     {only(tls.VersionTLS13), nil},
		"TLS 1.2":                     {only(tls.VersionTLS12), nil},
		"TLS 1.1":                     {only(tls.VersionTLS11), &Failure{Code: TLS}},
		"TLS 1.0":                     {only(tls.VersionTLS10), &Failure{Code: TLS}},
		"expired":                     {&tls.Config{Certificates: []tls.Certificate{a.issue(t, time.Now().Add(-time.Minute), "127.0.0.1")}}, &Failure{Code: TLS}},
		"another name":                {&tls.Config{Certificates: []tls.Certificate{a.issue(t, later, "127.0.0.2", "hooks.example.com")}}, &Failure{Code: TLS}},
		"signed by itself":            {&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{stranger.cert.Raw}, PrivateKey: stranger.key}}}, &Failure{Code: TLS}},
		"signed by a stranger":        {&tls.Config{Certificates: []tls.Certificate{stranger.issue(t, later, "127.0.0.1")}}, &Failure{Code: TLS}},
		"wants our certificate":       {asking, &Failure{Code: TLS}},
		"wants our certificate early": {askingEarly, &Failure{Code: TLS}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := false
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
			server.TLS = test.config
			quiet(t, server.Config)
			server.StartTLS()
			c := newClient(t, Config{AllowNetworks: loopbackOnly(), CAFile: a.file(t), Timeout: patience})
			for range 2 {
				_, err := c.Post(t.Context(), server.URL, nil, []byte("{}"))
				require.Equal(t, test.want, err)
			}
			c.Close()
			server.Close()
			require.Equal(t, test.want == nil, called)
		})
	}
}

// listen starts a TCP server without TLS.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestPost_NoConnection_ErrorCodes(t *testing.T) {
	t.Parallel()
	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	plain := listen(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n") })
	deaf := listen(t, func(net.Conn) {})
	resolver := names(func(name string, _ bool) []netip.Addr {
		if strings.HasPrefix(name, "private") {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}
		}
		return nil
	})
	stuck := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	_, port, err := net.SplitHostPort(silent)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		target   string
		resolver *net.Resolver
		timeout  time.Duration
		code     string
	}{
		"nobody listens":        {"https://" + proc.FreeAddress(t), nil, patience, Connect},
		"no handshake":          {"https://" + silent, nil, short, Timeout},
		"hangs up on handshake": {"https://" + deaf, nil, patience, TLS},
		"speaks plain HTTP":     {"https://" + plain, nil, patience, TLS},
		"no such name":          {"https://nobody.example.com:" + port, resolver, patience, DNS},
		"names take too long":   {"https://slow.example.com:" + port, stuck, time.Second, DNS},
		"a private address":     {"https://private.example.com:" + port, resolver, patience, BlockedAddress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, Config{AllowNetworks: loopbackOnly(), Timeout: test.timeout, Resolver: test.resolver})
			answer, err := c.Post(t.Context(), test.target, nil, []byte("{}"))
			// Resolving may take half of the timeout. On a slow machine the whole timeout may pass first.
			for range 10 {
				if failed, _ := errors.AsType[*Failure](err); test.code != DNS || failed.Code != Timeout {
					break
				}
				answer, err = c.Post(t.Context(), test.target, nil, []byte("{}"))
			}
			require.Equal(t, &Failure{Code: test.code}, err)
			require.Positive(t, answer.Took)
		})
	}
}

func TestPost_PlainHTTP_OnlyToAllowedNetworks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "dev") }))
	t.Cleanup(server.Close)
	c := newClient(t, Config{AllowNetworks: loopbackOnly(), AllowHTTP: true, Timeout: patience})
	answer, err := c.Post(t.Context(), server.URL, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "dev", answer.Snippet)
	for _, config := range []Config{{}, {AllowNetworks: loopbackOnly()}, {AllowHTTP: true}} {
		_, err = newClient(t, config).Post(t.Context(), server.URL, nil, nil)
		require.Equal(t, &Failure{Code: BlockedAddress}, err)
	}
	for _, host := range []string{"8.8.8.8", "10.0.0.1", "[::1]:8080"} { // past the check of the URL
		_, err = c.post(t.Context(), &url.URL{Scheme: "http", Host: host}, nil, nil)
		require.Equal(t, &Failure{Code: BlockedAddress}, err, host)
	}
}

func TestPost_Name_NoSearchList(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"hooks.example.com:443": "hooks.example.com.:443", "hooks.example.com.:443": "hooks.example.com.:443", "8.8.8.8:443": "8.8.8.8:443",
		"[2606:4700::1111]:443": "[2606:4700::1111]:443", ":443": ":443",
	} {
		_, _ = complete(func(_ context.Context, _, got string) (net.Conn, error) {
			require.Equal(t, want, got)
			return nil, io.EOF
		})(t.Context(), "tcp", address)
	}
	asked := make(chan string, 10)
	c := newClient(t, Config{Timeout: patience, Resolver: names(func(name string, _ bool) []netip.Addr {
		asked <- name
		return nil
	})})
	_, err := c.Post(t.Context(), "https://hooks.example.com/", nil, nil)
	require.Equal(t, &Failure{Code: DNS}, err)
	close(asked)
	for name := range asked {
		require.Equal(t, "hooks.example.com.", name)
	}
}

func TestNew_BadNetworksOrCertificates_Refused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("no certificate"), 0o600))
	for want, config := range map[string]Config{
		"read certificates":        {CAFile: filepath.Join(t.TempDir(), "missing.pem")},
		"holds no certificate":     {CAFile: empty},
		"is not a network":         {AllowNetworks: []netip.Prefix{{}}},
		"::ffff:10.0.0.0/104 is":   {AllowNetworks: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 104)}},
		"write IPv4 networks as 1": {AllowNetworks: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33)}},
	} {
		_, err := New(config)
		require.ErrorContains(t, err, want)
	}
}

func TestFailure_EachCode_OneSentence(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, code := range []string{DNS, Connect, TLS, Timeout, BlockedAddress, ResponseTooLarge} {
		said[(&Failure{Code: code}).Error()] = true
	}
	require.Len(t, said, 6)
}
