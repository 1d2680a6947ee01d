package gzipped_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/gzipped"
)

func TestAccepted(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"": false, "identity": false, "gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0, br": false,
	} {
		require.Equal(t, want, gzipped.Accepted(http.Header{"Accept-Encoding": {value}}), value)
	}
}
