package safehttp

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const maxURLBytes = 2048

// CheckURL returns what is wrong with a tenant's URL, as the end of a sentence that begins with
// "url". It resolves no name, because the addresses of a name can change before the first Post,
// and because the duration of a lookup would tell about our network.
func (c *Client) CheckURL(raw string) error {
	_, err := c.parse(raw)
	return err
}

func (c *Client) parse(raw string) (*url.URL, error) {
	if err := checkText(raw); err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("must be a valid URL")
	}
	g := c.guard
	switch {
	case u.Scheme == "http" && c.allowHTTP:
		if !plainHost(strings.ToLower(u.Hostname()), c.plain) {
			return nil, errors.New("must use https: plain http is only for localhost and addresses of this machine")
		}
		g = c.plain
	case u.Scheme != "https":
		return nil, errors.New("must use https")
	}
	if u.User != nil {
		return nil, errors.New("must not contain a user name or password")
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return nil, errors.New("must name a host")
	}
	if err := checkPort(u); err != nil {
		return nil, err
	}
	return u, checkHost(u, g)
}

// plainHost tells whether a host may be called without TLS: an address that is allowed, or localhost. What another name
// leads to is known only when it is called.
func plainHost(host string, g guard) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.permits(addr)
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// checkText refuses texts that parsers read differently.
func checkText(raw string) error {
	if len(raw) > maxURLBytes {
		return errors.New("must be at most 2048 characters long")
	}
	for i := range len(raw) {
		switch b := raw[i]; {
		case b <= ' ' || b == 0x7f || b == '\\':
			return errors.New("must not contain spaces, control characters or backslashes")
		case b > 0x7f:
			return errors.New("must be written in ASCII: host names in punycode, the rest percent-encoded")
		case b == '#':
			return errors.New("must not contain a fragment (#)")
		}
	}
	return nil
}

func checkPort(u *url.URL) error {
	text := u.Port()
	if text == "" && !strings.HasSuffix(u.Host, ":") {
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || text[0] == '0' || port != 443 && port != 8443 && port <= 1023 {
		return errors.New("must use port 443, 8443 or one above 1023")
	}
	return nil
}

// local are the domains that are reserved for machines, organizations and clouds.
var local = []string{
	"corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "localhost", "mail", "private", "svc",
}

func checkHost(u *url.URL, g guard) error {
	host := strings.ToLower(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil {
		if !g.permits(addr) {
			return errors.New("must lead to a public address")
		}
		return nil
	}
	labels := strings.Split(host, ".")
	if len(host) > 253 || slices.ContainsFunc(labels, badLabel) {
		return errors.New("must name a valid host")
	}
	last := labels[len(labels)-1]
	if number(last) { // 127.1, 0x7f000001, 017700000001: some parsers read them as addresses
		return errors.New("must name a valid host")
	}
	if last == "localhost" && (contains(g.allow, netip.IPv6Loopback()) || contains(g.allow, loopback)) {
		return nil
	}
	within := func(suffix string) bool { return host == suffix || strings.HasSuffix(host, "."+suffix) }
	if last == "localhost" || len(g.allow) == 0 && (len(labels) == 1 || slices.ContainsFunc(local, within)) {
		return errors.New("must name a public host")
	}
	return nil
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1}) //nolint:gochecknoglobals // never changed

func badLabel(label string) bool {
	return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
		strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
}

func number(label string) bool {
	if digits, hex := strings.CutPrefix(label, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
