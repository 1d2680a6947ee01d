package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// connection is the connection of a caller that sends pieces at a pace of its own, by a clock of its own.
type connection struct {
	*httptest.ResponseRecorder

	now, deadline time.Time
	// pieces are the sizes that are still to come, and how long each takes.
	pieces []piece
}

type piece struct {
	size  int
	takes time.Duration
}

func (c *connection) SetReadDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *connection) Read(into []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	next := c.pieces[0]
	if c.now.Add(next.takes).After(c.deadline) {
		c.now = c.deadline
		return 0, os.ErrDeadlineExceeded
	}
	c.now, c.pieces = c.now.Add(next.takes), c.pieces[1:]
	return min(next.size, len(into)), nil
}

func (*connection) Close() error { return nil }

func pieces(count, size int, takes time.Duration) (all []piece) {
	for range count {
		all = append(all, piece{size: size, takes: takes})
	}
	return all
}

// TestPatientBody_SlowCaller_CutInTime: a caller must send 32 KiB a second, after 20 s to begin with, and the next piece within 30 s.
func TestPatientBody_SlowCaller_CutInTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pieces []piece
		// cut is when the caller is cut; 0 if it may send everything.
		cut time.Duration
	}{
		"a few bytes each second":     {pieces(1000, 100, time.Second), 20 * time.Second},
		"half of the rate":            {pieces(1000, 16<<10, time.Second), 39 * time.Second},
		"the rate":                    {pieces(500, 32<<10, time.Second), 0},
		"the rate, for too long":      {pieces(1000, 32<<10, time.Second), 9 * time.Minute},
		"fast":                        {pieces(3200, 32<<10, 10*time.Millisecond), 0},
		"nothing at all":              {pieces(1, 1, time.Hour), 20 * time.Second},
		"fast, then nothing":          {append(pieces(320, 32<<10, 0), piece{1, time.Hour}), 30 * time.Second},
		"fast, then after a pause":    {append(pieces(320, 32<<10, 0), piece{1, 29 * time.Second}), 0},
		"saved up, then a few bytes":  {append(pieces(320, 32<<10, 0), pieces(1000, 100, time.Second)...), 341 * time.Second},
		"slow, then fast and in time": {append(pieces(19, 100, time.Second), pieces(3200, 32<<10, 10*time.Millisecond)...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
			from := &connection{ResponseRecorder: httptest.NewRecorder(), now: start, pieces: test.pieces}
			body := patient(from, from)
			body.now = func() time.Time { return from.now }
			from.now = from.now.Add(time.Hour) // the wait for a place does not count
			began, buffer := from.now, make([]byte, 64<<10)
			var err error
			for err == nil {
				_, err = body.Read(buffer)
			}
			if test.cut == 0 {
				require.ErrorIs(t, err, io.EOF)
				require.NoError(t, body.failed)
				return
			}
			require.ErrorIs(t, body.failed, os.ErrDeadlineExceeded)
			require.InDelta(t, test.cut.Seconds(), from.now.Sub(began).Seconds(), 1)
		})
	}
}

var _ http.ResponseWriter = (*connection)(nil)
