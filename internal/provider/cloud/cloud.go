// Package cloud is the adapter to the real messaging network: the only place, beside the
// simulator, that speaks its words. It holds no state but connections, tries every call
// once, and keeps tokens and app secrets out of errors and of every host but the network's own.
package cloud

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
)

// The network's own address and the version that this adapter was written for.
const (
	DefaultBaseURL = "https://graph.facebook.com"
	DefaultVersion = "v24.0"
)

// Config is the settings of the operator. Without an app the client can send and manage, but
// neither take callbacks nor sign businesses up.
type Config struct {
	BaseURL string
	Version string
	AppID   string
	// AppSecrets are all valid for callbacks; the first is used for calls.
	AppSecrets  []telemetry.Secret
	VerifyToken telemetry.Secret
	// SignupConfigID names the signup dialog's configuration at the network.
	SignupConfigID string
	// Timeout of a call that moves no file; 10 seconds when zero.
	Timeout time.Duration
	// Clock reads a Retry-After that is a date.
	Clock clock.Clock
}

// Client is safe for concurrent use, and meant to be the only one of its process: it keeps
// connections open.
type Client struct {
	config     Config
	base       *url.URL
	transport  *http.Transport
	mediaHosts []string // may see the token
	secrets    []string // never to be printed
}

var _ provider.Port = (*Client)(nil)

var versionPattern = regexp.MustCompile(`^v[0-9]{1,3}\.[0-9]{1,2}$`)

// New refuses settings that cannot work. It opens no connection.
func New(config Config) (*Client, error) {
	config.BaseURL = strings.TrimRight(cmp.Or(config.BaseURL, DefaultBaseURL), "/")
	config.Version = cmp.Or(config.Version, DefaultVersion)
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.AppSecrets = slices.DeleteFunc(slices.Clone(config.AppSecrets), func(s telemetry.Secret) bool { return s == "" })
	if config.Clock == nil {
		config.Clock = clock.NewSynced()
	}
	base, err := url.Parse(config.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.User != nil || base.RawQuery != "" {
		return nil, errors.New("the base URL must be https://host, without a query or credentials")
	}
	if !versionPattern.MatchString(config.Version) {
		return nil, fmt.Errorf("the version must look like %s", DefaultVersion)
	}
	c := &Client{config: config, base: base, mediaHosts: []string{base.Host}, transport: newTransport()}
	if config.BaseURL == DefaultBaseURL {
		c.mediaHosts = append(c.mediaHosts, "lookaside.fbsbx.com")
	}
	for _, secret := range append(slices.Clone(config.AppSecrets), config.VerifyToken) {
		if secret != "" {
			c.secrets = append(c.secrets, secret.Reveal())
		}
	}
	return c, nil
}

// newTransport speaks HTTP/1 only: there a request has left whole or in part, and one stuck
// stream does not hold up its neighbours.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		Protocols:              protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    5 * time.Second,
		ResponseHeaderTimeout:  30 * time.Second, // of files; other calls have less time as a whole
		DisableCompression:     true,             // nothing is ever unpacked
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    512,
		IdleConnTimeout:        30 * time.Second, // shorter than the other side's: a dying connection makes a send ambiguous
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }
