package templates

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/provider"
)

// TestUpload_SlowHost_Refused: the host of a header's file has ten seconds, here one millisecond, until its answer begins and
// its type is known.
func TestUpload_SlowHost_Refused(t *testing.T) {
	t.Parallel()
	require.Equal(t, 10*time.Second, New(Deps{}).answersWithin)
	client, err := safehttp.New(safehttp.Config{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for name, begin := range map[string]func(w http.ResponseWriter){
		"no answer": func(http.ResponseWriter) {},
		"no type": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write([]byte("\x89PNG"))
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				<-r.Context().Done()
			}))
			t.Cleanup(host.Close)
			s := &Service{fetch: client, answersWithin: time.Millisecond}
			_, err := s.upload(t.Context(), provider.BusinessAccount{}, "components[0].example.header_url", host.URL+"/a.png", headerFiles()["IMAGE"])
			refusal := fault.As(err)
			require.NotNil(t, refusal, "%v", err)
			require.Equal(t, fault.InvalidFieldValue, refusal.Code)
			require.Equal(t, "components[0].example.header_url", refusal.Param)
			require.Contains(t, refusal.Message, "could not be read")

			gone, leave := context.WithCancel(t.Context())
			leave()
			_, err = s.upload(gone, provider.BusinessAccount{}, "p", host.URL+"/a.png", headerFiles()["IMAGE"])
			require.ErrorIs(t, err, context.Canceled, "the caller left, which is not the host's fault")
		})
	}
}
