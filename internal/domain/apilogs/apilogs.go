// Package apilogs keeps thirty days of API calls, one row for each request of a known
// key, without bodies, query strings or secrets. Rows wait in memory for at most a
// second; a crash or a database that is away loses them, and says how many.
package apilogs

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// RequestID names a request; its row in the log has the same id.
type RequestID = ids.Public[requestKind]

type requestKind struct{}

func (requestKind) Prefix() string { return "req_" }

// RequestOf is the id of a request that another row names.
func RequestOf(id ids.Any) RequestID { return ids.From[requestKind](id) }

// NewRequestID mints the id of a request that arrived at.
func NewRequestID(at time.Time) RequestID { return ids.New[requestKind](at) }

// Entry is one request as it was answered.
type Entry struct {
	OrgID     orgs.ID
	ID        RequestID
	KeyID     apikeys.ID
	Method    string
	Path      string
	Route     string
	Status    int
	Code      string
	Duration  time.Duration
	IP        netip.Addr
	UserAgent string
	Replayed  bool
	// Count is how many requests the entry stands for: 1, except for a Flood.
	Count int
	// Flood is true for a request whose key is not valid, beyond the rate of its address. Such requests of one key and
	// address that are written together are one entry.
	Flood bool
}

// sameFlood are entries that are counted together.
type sameFlood struct {
	org   orgs.ID
	key   apikeys.ID
	ip    netip.Addr
	route string
}

// Kept is how long entries are shown. Then their partitions are dropped.
const Kept = 30 * 24 * time.Hour

const (
	flushEvery = time.Second
	// flushTimeout bounds one flush, the last one included: a stop must end.
	flushTimeout = 5 * time.Second
	// maxWaiting bounds memory while the database is slow or away.
	maxWaiting = 50_000
	batch      = 2_000
	maxText    = 512
)

// Log collects entries and writes them in batches.
type Log struct {
	db      *postgres.DB
	logger  *slog.Logger
	dropped atomic.Int64

	mu      sync.Mutex
	waiting []Entry
	// floods are the places in waiting of entries that stand for several requests.
	floods map[sameFlood]int

	stop chan struct{}
	done chan struct{}
}

// New builds the log; nothing is written until Run.
func New(db *postgres.DB, logger *slog.Logger) *Log {
	return &Log{db: db, logger: logger, stop: make(chan struct{}), done: make(chan struct{})}
}

// keyLike is masked wherever a caller may have put a key by mistake.
var keyLike = regexp.MustCompile(`svc_live_[A-Za-z0-9_-]*`)

// clean masks keys, cuts long text and drops what PostgreSQL cannot store.
func clean(text string) string {
	text = keyLike.ReplaceAllString(text, "svc_live_[hidden]")
	if len(text) > maxText {
		text = text[:maxText]
	}
	return storable(text)
}

// Add takes an entry without waiting for the database.
func (l *Log) Add(entry Entry) {
	entry.Path, entry.UserAgent, entry.Method = clean(entry.Path), clean(entry.UserAgent), clean(entry.Method)
	entry.Count = 1
	l.mu.Lock()
	defer l.mu.Unlock()
	same := sameFlood{entry.OrgID, entry.KeyID, entry.IP, entry.Route}
	if at, found := l.floods[same]; entry.Flood && found {
		l.waiting[at].Count++
		return
	}
	if len(l.waiting) >= maxWaiting {
		l.dropped.Add(1)
		return
	}
	if entry.Flood {
		if l.floods == nil {
			l.floods = map[sameFlood]int{}
		}
		l.floods[same] = len(l.waiting)
	}
	l.waiting = append(l.waiting, entry)
}

// Dropped is how many entries were lost since the start.
func (l *Log) Dropped() int64 { return l.dropped.Load() }

// Run writes each second until Close.
func (l *Log) Run() {
	defer close(l.done)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.Flush()
		case <-l.stop:
			l.Flush()
			return
		}
	}
}

// Close writes what waits and ends Run.
func (l *Log) Close() {
	close(l.stop)
	<-l.done
}

// Flush writes everything that waits.
func (l *Log) Flush() {
	l.mu.Lock()
	entries := l.waiting
	l.waiting, l.floods = nil, nil
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for next := range slices.Chunk(entries, batch) {
		written, err := insertEntries(ctx, l.db, next)
		if err != nil {
			written = 0
		}
		if lost := int64(len(next)) - written; lost > 0 {
			l.dropped.Add(lost)
			if err == nil {
				err = errFrozen
			}
			l.logger.Error("apilog.dropped", "entries", lost, "dropped_total", l.Dropped(), "error", err)
		}
	}
}

// errFrozen is why entries are lost although the database answers.
var errFrozen = errors.New("their organization is being moved to another cell")

// List returns the newest entries of an organization.
func (l *Log) List(ctx context.Context, org orgs.ID, limit int) ([]Entry, error) {
	return listEntries(ctx, l.db.Of(org), limit)
}
