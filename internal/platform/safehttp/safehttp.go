// Package safehttp posts to URLs that tenants gave. It reaches public addresses and the
// networks that the operator allowed, nothing else: each connection is checked when it is
// made, after its name was resolved, so no answer of a name server gets around the check.
// It follows no redirect, asks no proxy and keeps little of what it is answered.
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

// Config is what the operator decides.
type Config struct {
	AllowNetworks []netip.Prefix // reached although they are not public
	AllowHTTP     bool           // plain http, and that to AllowNetworks only
	CAFile        string         // PEM certificates, trusted beside the system's
	Timeout       time.Duration  // of a whole Post; 10 seconds when zero
	Resolver      *net.Resolver  // the machine's when nil
}

// Client is safe for concurrent use, and meant to be the only one of its process: it
// keeps connections open for the next Post.
type Client struct {
	guard     guard
	plain     guard // of connections without TLS
	allowHTTP bool
	timeout   time.Duration
	tls       *tls.Config
	transport *http.Transport
}

// New refuses networks and certificates that it cannot read.
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

// build is told how a guard is asked, so that a test can see what happens without it.
func build(config Config, roots *x509.CertPool, ask func(g guard, network, address string, conn syscall.RawConn) error) *Client {
	c := &Client{
		guard:     guard{allow: config.AllowNetworks},
		plain:     guard{allowOnly: true},
		allowHTTP: config.AllowHTTP,
		timeout:   cmp.Or(config.Timeout, 10*time.Second),
		tls:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(1024)},
	}
	if config.AllowHTTP {
		c.plain.allow = config.AllowNetworks
	}
	resolver := cmp.Or(config.Resolver, &net.Resolver{PreferGo: true})
	dial := func(g guard) dialFunc {
		// Half the time for lookup and connection: so it is known which of them took too long.
		dialer := &net.Dialer{Timeout: c.timeout / 2, Resolver: resolver}
		dialer.Control = func(network, address string, conn syscall.RawConn) error { return ask(g, network, address, conn) }
		if len(config.AllowNetworks) == 0 {
			return complete(dialer.DialContext)
		}
		return dialer.DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // one stuck stream of HTTP/2 would hold up its neighbours
	c.transport = &http.Transport{
		Proxy:                  nil,
		DialContext:            dial(c.plain),
		DialTLSContext:         c.withTLS(dial(c.guard)),
		Protocols:              protocols,
		DisableCompression:     true, // nothing is ever unpacked
		MaxIdleConns:           2048,
		MaxIdleConnsPerHost:    512, // many subscriptions may share a host
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	return c
}

// trusted is nil, the system's own pool, when the operator adds nothing.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // what crypto/tls takes for the system's pool
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

// complete takes names as they are: with the search list of the machine a tenant could
// ask for the names of our own network, and each lookup would cost several.
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

// withTLS shakes hands here rather than in the transport, so that what fails there is
// known to be TLS without reading error texts.
func (c *Client) withTLS(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.timeout) // the transport dials on when a Post has given up
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

// Close ends the connections that wait for a next Post.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Post sends body and waits for the whole answer, also one of 3xx, 4xx or 5xx. Its error
// is a *Failure, or that of ctx when the caller cancelled.
//
// A body that is too long to read or breaks off changes nothing: the status was said. One
// that does not end in time is a timeout, and one announced with more than 1 MiB, like
// headers of more than 64 KiB, is too large.
func (c *Client) Post(ctx context.Context, target string, header http.Header, body []byte) (Answer, error) {
	u, err := c.parse(target)
	if err != nil {
		return Answer{}, &Failure{Code: BlockedAddress} // let in under other rules than today's
	}
	return c.post(ctx, u, header, body)
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
	request.URL = u // parsed before
	if header != nil {
		request.Header = maps.Clone(header)
	}
	if _, given := request.Header["Idempotency-Key"]; !given {
		// Sends nothing, but lets the transport try again where an endpoint closed a kept
		// connection: whoever takes deliveries must expect them twice anyway.
		request.Header["Idempotency-Key"] = nil
	}
	// RoundTrip rather than an http.Client: it knows no redirects and no cookies.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // read as far as it is wanted
	return read(ctx, response)
}
