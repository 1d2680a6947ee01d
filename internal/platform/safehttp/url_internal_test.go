package safehttp

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newClient(t testing.TB, config Config) *Client {
	t.Helper()
	c, err := New(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestCheckURL_PublicURLs_Accepted(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{})
	for _, raw := range append([]string{
		"https://hooks.example.com", "HTTPS://Hooks.Example.COM/a/b?c=d&e=%20", "https://hooks.example.com:443/", "https://hooks.example.com:1024/",
		"https://hooks.example.com:8443/", "https://hooks.example.com:65535/", "https://8.8.8.8/", "https://[2606:4700::1111]:8443/", "https://a_b.example.com/",
		"https://xn--bcher-kva.example/", "https://example.co.uk/%2e%2e/", "https://1.example.com/", "https://0x7f.example.com/", "https://4chan.org/?q=127.0.0.1",
		"https://hooks.example.com/@127.0.0.1", "https://hooks.example.com/http://127.0.0.1", "https://local.example.com/", "https://internal.io/", "https://notlocal.io/",
		"https://" + strings.Repeat("a", 63) + ".example.com/", "https://hooks.example.com/" + strings.Repeat("a", 2048-26),
	}, innocent...) {
		require.NoError(t, c.CheckURL(raw), raw)
	}
}

func TestCheckURL_HostileURLs_Refused(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{})
	require.GreaterOrEqual(t, len(hostile()), 120)
	for _, raw := range hostile() {
		require.Error(t, c.CheckURL(raw), "%q", raw)
		answer, err := c.Post(t.Context(), raw, nil, nil)
		require.Equal(t, &Failure{Code: BlockedAddress}, err, "%q", raw)
		require.Zero(t, answer)
	}
	require.Error(t, c.CheckURL("https://"+strings.Repeat("a", 64)+".example.com/"))
	require.Error(t, c.CheckURL("https://"+strings.Repeat("a.", 126)+"com/"))
}

func TestCheckURL_Refusal_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{})
	for raw, want := range map[string]string{
		"http://hooks.example.com/":                                "must use https",
		"https://user:secret@hooks.example.com/":                   "must not contain a user name or password",
		"https://hooks.example.com/#top":                           "must not contain a fragment (#)",
		"https://hooks.example.com:25/":                            "must use port 443, 8443 or one above 1023",
		"https://hooks.example.com:443:80/":                        "must be a valid URL",
		"https://10.0.0.1/":                                        "must lead to a public address",
		"https://[::1]/":                                           "must lead to a public address",
		"https://localhost/":                                       "must name a public host",
		"https://intranet/":                                        "must name a public host",
		"https://2130706433/":                                      "must name a valid host",
		"https:///path":                                            "must name a host",
		"https://hooks.example.com/a b":                            "must not contain spaces, control characters or backslashes",
		"https://bücher.example/":                                  "must be written in ASCII: host names in punycode, the rest percent-encoded",
		"https://hooks.example.com/" + strings.Repeat("a", 2e3+23): "must be at most 2048 characters long",
	} {
		require.Equal(t, errors.New(want), c.CheckURL(raw), raw)
	}
}

func TestCheckURL_AllowedByTheOperator_Accepted(t *testing.T) {
	t.Parallel()
	loopbacks := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for name, test := range map[string]struct {
		config          Config
		accept, refused []string
	}{
		"a private network": {
			Config{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
			[]string{"https://10.1.2.3/", "https://10.1.2.3:8443/", "https://hooks.corp.internal/", "https://receiver/", "https://8.8.8.8/"},
			[]string{"https://10.2.2.3/", "https://10.1.2.3:80/", "http://10.1.2.3/", "https://localhost/", "https://[::ffff:10.1.2.3]/", "https://127.0.0.1/"},
		},
		"loopback": {
			Config{AllowNetworks: loopbacks},
			[]string{"https://127.0.0.1:8080/", "https://[::1]:8080/", "https://localhost:9000/", "https://a.localhost/"},
			[]string{"http://127.0.0.1:8080/", "https://10.0.0.1/", "https://2130706433/", "https://127.1/", "https://127.0.0.1:22/"},
		},
		"plain http": {
			Config{AllowNetworks: loopbacks, AllowHTTP: true},
			[]string{"http://127.0.0.1:8080/", "http://localhost:9000/hook", "http://[::1]:8080/", "https://8.8.8.8/", "http://localhost/"},
			[]string{"http://8.8.8.8/", "http://10.0.0.1/", "http://[2606:4700::1111]/", "ftp://127.0.0.1/", "http://user@127.0.0.1:8080/", "http://example.com/", "http://zz.invalid/"},
		},
		"plain http to nobody": {
			Config{AllowHTTP: true},
			[]string{"https://8.8.8.8/"},
			[]string{"http://8.8.8.8/", "http://127.0.0.1:8080/", "http://localhost:8080/"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, test.config)
			for _, raw := range test.accept {
				require.NoError(t, c.CheckURL(raw), raw)
			}
			for _, raw := range test.refused {
				require.Error(t, c.CheckURL(raw), raw)
			}
		})
	}
}

// FuzzCheckURL checks that the host of an accepted URL is the host in its text.
func FuzzCheckURL(f *testing.F) {
	c := newClient(f, Config{})
	for _, raw := range append(hostile(), innocent...) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := c.parse(raw)
		if err != nil {
			return
		}
		rest, ok := strings.CutPrefix(strings.ToLower(raw), "https://")
		require.True(t, ok, raw)
		authority := rest
		if end := strings.IndexAny(rest, "/?"); end >= 0 {
			authority = rest[:end]
		}
		require.Equal(t, authority, strings.ToLower(u.Host), "%q", raw)
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			require.False(t, registered(addr), "%q", raw)
		} else {
			require.Regexp(t, `^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)+(:[1-9][0-9]{2,4})?$`, authority)
		}
	})
}
