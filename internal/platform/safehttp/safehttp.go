// Package safehttp sends requests to URLs of tenants. It connects only to public addresses and to networks
// that the operator allowed. The address of each connection is checked after the name was
// resolved, so that no DNS answer can bypass the check. The package follows no redirects, uses no
// proxy. Post stores at most 1 KiB of a response; Fetch streams a file.
package safehttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
)

// Config holds the settings of the operator.
type Config struct {
	// AllowNetworks may be reached although they are not public. Default: none.
	AllowNetworks []netip.Prefix
	// AllowHTTP allows plain http, and only to AllowNetworks.
	AllowHTTP bool
	// CAFile is a file of PEM certificates that are trusted in addition to those of the system.
	// Empty means none.
	CAFile string
	// Timeout bounds a whole Post. Default: 10 s.
	Timeout time.Duration
	// Resolver resolves names. Nil means the resolver of the machine.
	Resolver *net.Resolver
	// The client calls Posted after each Post. Nil: it calls nothing.
	Posted func(ctx context.Context, target string, header http.Header, answer Answer, err error)
}

// Client is safe for concurrent use. A process should have one, because it keeps connections open
// for the next Post.
type Client struct {
	guard     guard
	plain     guard // for connections without TLS
	allowHTTP bool
	timeout   time.Duration
	tls       *tls.Config
	transport *http.Transport
	posted    func(ctx context.Context, target string, header http.Header, answer Answer, err error)
}

// New returns a client. It refuses bad networks and files without certificates.
func New(config Config) (*Client, error) {
	for _, network := range config.AllowNetworks {
		if !network.IsValid() || network.Addr().Is4In6() {
			return nil, fmt.Errorf("%s is not a network: write IPv4 networks as 10.0.0.0/8", network)
		}
	}
	roots, err := trusted(config.CAFile)
	if err != nil {
		return nil, err
	}
	return build(config, roots, guard.control), nil
}

// build gets the function that calls a guard, so that a test can turn the guard off.
func build(config Config, roots *x509.CertPool, ask func(g guard, network, address string, conn syscall.RawConn) error) *Client {
	c := &Client{
		guard:     guard{allow: config.AllowNetworks},
		plain:     guard{allowOnly: true},
		allowHTTP: config.AllowHTTP,
		posted:    config.Posted,
		timeout:   cmp.Or(config.Timeout, 10*time.Second),
		tls:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(1024)},
	}
	if config.AllowHTTP {
		c.plain.allow = config.AllowNetworks
	}
	resolver := cmp.Or(config.Resolver, &net.Resolver{PreferGo: true})
	dial := func(g guard) dialFunc {
		// Resolving and connecting get half of the timeout, so that a slow endpoint can be told from
		// one that cannot be reached.
		dialer := &net.Dialer{Timeout: c.timeout / 2, Resolver: resolver}
		dialer.Control = func(network, address string, conn syscall.RawConn) error { return ask(g, network, address, conn) }
		if len(config.AllowNetworks) == 0 {
			return complete(dialer.DialContext)
		}
		return dialer.DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // with HTTP/2 one stuck connection would block all requests to its host
	c.transport = &http.Transport{
		Proxy:                  nil,
		DialContext:            dial(c.plain),
		DialTLSContext:         c.withTLS(dial(c.guard)),
		Protocols:              protocols,
		DisableCompression:     true, // responses are never decompressed
		MaxIdleConns:           2048,
		MaxIdleConnsPerHost:    512, // many subscriptions may have the same host
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	return c
}

// trusted returns the certificates of the system and of the file; nil, which means those of the
// system, without a file.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // nil means the system's pool
	}
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return pool, nil
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// complete makes names absolute, so that the search list of the machine is not used. With it a
// tenant could reach names of our own network, and each lookup would need several queries.
func complete(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err != nil && host != "" && !strings.HasSuffix(host, ".") {
			address = net.JoinHostPort(host+".", port)
		}
		return dial(ctx, network, address)
	}
}

// withTLS does the handshake here and not in the transport, so that failures of the handshake are
// known without reading error texts.
func (c *Client) withTLS(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.timeout) // the transport continues to dial after the Post has ended
		defer cancel()
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := c.tls.Clone()
		config.ServerName = host
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			if timedOut(err) {
				return nil, err
			}
			return nil, &Failure{Code: TLS}
		}
		return conn, nil
	}
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Post sends body and waits for the whole response, whatever its status. Its error is a *Failure,
// or the error of ctx when the caller cancelled.
//
// A response whose body is truncated, or longer than is read, is returned with its status. A body
// that does not end within the timeout is a timeout. A Content-Length above 1 MiB, or headers
// above 64 KiB, are too large.
func (c *Client) Post(ctx context.Context, target string, header http.Header, body []byte) (answer Answer, err error) {
	u, err := c.parse(target)
	if err == nil {
		answer, err = c.post(ctx, u, header, body)
	} else {
		err = &Failure{Code: BlockedAddress} // it was accepted when the settings were different
	}
	if c.posted != nil {
		c.posted(ctx, target, header, answer, err)
	}
	return answer, err
}

func (c *Client) post(ctx context.Context, u *url.URL, header http.Header, body []byte) (Answer, error) {
	watch := clock.StartWatch()
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.exchange(limited, u, header, body)
	answer.Took = watch.Elapsed()
	if err == nil {
		return answer, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return Answer{Took: answer.Took}, ctx.Err()
	}
	return Answer{Took: answer.Took}, failureOf(err)
}

func (c *Client) exchange(ctx context.Context, u *url.URL, header http.Header, body []byte) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	request.URL = u // CheckURL's parsed form
	if header != nil {
		request.Header = maps.Clone(header)
	}
	if _, given := request.Header["Idempotency-Key"]; !given {
		// A nil value sends no header, but lets the transport retry when the endpoint closed a kept
		// connection. Receivers must expect duplicates of a delivery anyway.
		request.Header["Idempotency-Key"] = nil
	}
	// RoundTrip instead of an http.Client, because it follows no redirects and has no cookies.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // the body was read as far as needed
	return read(ctx, response)
}
