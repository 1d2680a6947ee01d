package cloud

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
)

// TestDownload_FollowsTheNetworksOwnHostsWithoutTheToken plays all hosts of the network by
// one server.
func TestDownload_FollowsTheNetworksOwnHostsWithoutTheToken(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Host {
		case "lookaside.fbsbx.com":
			if r.Header.Get("Authorization") != "Bearer token" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, "https://scontent.fbcdn.net/file", http.StatusFound)
		default:
			_, _ = io.WriteString(w, r.Host+" saw "+r.Header.Get("Authorization"))
		}
	}))
	t.Cleanup(server.Close)
	client, err := New(Config{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	client.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	client.transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	number := provider.Number{ID: "1", Token: provider.NewToken("token")}
	opened, err := client.DownloadMedia(t.Context(), number, "https://lookaside.fbsbx.com/whatsapp_business/attachments/?mid=1")
	require.NoError(t, err)
	content, err := io.ReadAll(opened.Body)
	require.NoError(t, err)
	require.NoError(t, opened.Body.Close())
	require.Equal(t, "scontent.fbcdn.net saw ", string(content))
	for _, elsewhere := range []string{
		"https://scontent.fbcdn.net/file", "http://lookaside.fbsbx.com/x", "https://lookaside.fbsbx.com:8443/x", "https://lookaside.fbsbx.com.evil.example/x",
		"https://evil.example/lookaside.fbsbx.com",
	} {
		_, err := client.DownloadMedia(t.Context(), number, elsewhere)
		require.Error(t, err, elsewhere)
	}
}
