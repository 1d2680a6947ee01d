package apilogs_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func TestLog_Entry_AllFieldsStored(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	key, _ := w.Key(t, org)
	log := apilogs.New(w.DB, canary.Logger(t))
	entry := apilogs.Entry{
		OrgID: org, ID: apilogs.NewRequestID(w.Clock.Now()), KeyID: key, Method: "POST", Path: "/v1/labels", Route: "/labels",
		Status: 409, Code: "already_exists", Duration: 1234 * time.Microsecond, IP: netip.MustParseAddr("2001:db8::1"),
		UserAgent: "curl/8", Replayed: true, Count: 1,
	}
	log.Add(entry)
	log.Flush()
	entries, err := log.List(t.Context(), org, 10)
	require.NoError(t, err)
	require.Equal(t, []apilogs.Entry{entry}, entries)
}

func TestLog_NULAndSecrets_Replaced(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	_, secret := w.Key(t, org)
	log := apilogs.New(w.DB, canary.Logger(t))
	for _, odd := range []string{"/v1/" + secret, "/v1/\x00\xff", "/v1/" + strings.Repeat("ü", 1000), secret + "\x00" + secret} {
		log.Add(apilogs.Entry{OrgID: org, ID: apilogs.NewRequestID(w.Clock.Now()), Path: odd, UserAgent: odd, Method: odd})
	}
	log.Flush()
	require.Zero(t, log.Dropped())
	entries, err := log.List(t.Context(), org, 10)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	for _, entry := range entries {
		require.NotContains(t, entry.Path+entry.UserAgent+entry.Method, secret)
		require.LessOrEqual(t, len(entry.Path), 512)
	}
}

func TestLog_DatabaseDown_DroppedAndCounted(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://127.0.0.1:1/away", AcquireWait: 10 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	log := apilogs.New(db, canary.Logger(t))
	for range 50_005 {
		log.Add(apilogs.Entry{})
	}
	require.EqualValues(t, 5, log.Dropped(), "memory is bounded")
	log.Flush()
	require.EqualValues(t, 50_005, log.Dropped())
}
