package app_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// deadDatabase accepts connections and closes them at once. It counts them.
func deadDatabase(t *testing.T) (url string, tried *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	tried = &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tried.Add(1)
			_ = conn.Close()
		}
	}()
	return "postgres://" + listener.Addr().String() + "/parley?sslmode=disable", tried
}

// While a database is down, each condition is logged once, not with each try.
func TestDatabaseDown_ConditionsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	url, tried := deadDatabase(t)
	lines := &lockedBuffer{}
	process, err := app.New(t.Context(), app.ReadConfig(map[string]string{
		"PARLEY_DATABASE_URL": url, "PARLEY_MASTER_KEY": canary.Master, "PARLEY_LISTEN": "127.0.0.1:0", "PARLEY_OPERATOR_LISTEN": "127.0.0.1:0",
	}), slog.New(slog.NewJSONHandler(lines, nil)), app.Options{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	started, ended := time.Now(), make(chan error, 1)
	go func() { ended <- process.Run(ctx, app.Roles{Serve: true, Work: true}) }()
	proc.Eventually(t, proc.Patience, "many tries to connect", func() bool { return tried.Load() > 30 })
	stop()
	require.NoError(t, <-ended)
	most := 1 + int(time.Since(started)/time.Minute) // the machine may have stood still
	for _, condition := range []string{"clock.unsynced", "master_key.not_checked"} {
		for _, cell := range []string{`"cell":"main"`, `"cell":"directory"`} {
			times := 0
			for line := range strings.Lines(lines.String()) {
				if strings.Contains(line, condition) && strings.Contains(line, cell) {
					times++
				}
			}
			require.LessOrEqual(t, times, most, "%s of %s", condition, cell)
		}
		require.Contains(t, lines.String(), condition)
	}
}
