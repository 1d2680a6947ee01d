package apilogs

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// storable drops what a text column refuses: NUL and broken UTF-8.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}

const sqlInsertEntries = `
INSERT INTO api_log (org_id, id, key_id, method, path, route, status, code, duration_us, ip, user_agent, replayed, count)
SELECT *
FROM unnest(@orgs::uuid[], @ids::uuid[], @keys::uuid[], @methods::text[], @paths::text[], @routes::text[], @statuses::smallint[],
            @codes::text[], @durations::bigint[], @ips::inet[], @agents::text[], @replays::boolean[], @counts::int[]) AS entry (org_id)
WHERE EXISTS (
  SELECT
  FROM organizations o
  WHERE o.org_id = entry.org_id
    AND o.frozen_at IS NULL
)`

// insertEntries leaves out organizations that are being moved to another cell, and returns how
// many entries it wrote.
func insertEntries(ctx context.Context, db *postgres.DB, entries []Entry) (int64, error) {
	return postgres.InSystemTx(ctx, db, "API log of all organizations", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlInsertEntries, postgres.Columns(entries,
			postgres.Col("orgs", func(e Entry) orgs.ID { return e.OrgID }),
			postgres.Col("ids", func(e Entry) RequestID { return e.ID }),
			postgres.Col("keys", func(e Entry) apikeys.ID { return e.KeyID }),
			postgres.Col("methods", func(e Entry) string { return e.Method }),
			postgres.Col("paths", func(e Entry) string { return e.Path }),
			postgres.Col("routes", func(e Entry) string { return e.Route }),
			postgres.Col("statuses", func(e Entry) int16 { return int16(e.Status) }), //nolint:gosec // an HTTP status
			postgres.Col("codes", func(e Entry) string { return e.Code }),
			postgres.Col("durations", func(e Entry) int64 { return e.Duration.Microseconds() }),
			postgres.Col("ips", func(e Entry) *netip.Addr { return addrOrNil(e.IP) }),
			postgres.Col("agents", func(e Entry) string { return e.UserAgent }),
			postgres.Col("replays", func(e Entry) bool { return e.Replayed }),
			postgres.Col("counts", func(e Entry) int32 { return int32(e.Count) }))) //nolint:gosec // at most the requests of a second
	})
}

func addrOrNil(addr netip.Addr) *netip.Addr {
	if !addr.IsValid() {
		return nil
	}
	return &addr
}

type row struct {
	OrgID      orgs.ID
	ID         RequestID
	KeyID      apikeys.ID
	Method     string
	Path       string
	Route      string
	Status     int
	Code       string
	DurationUs int64
	IP         *netip.Addr
	UserAgent  string
	Replayed   bool
	Count      int
}

const columns = `org_id, id, key_id, method, path, route, status, code, duration_us, ip, user_agent, replayed, count`

const sqlListEntries = `
SELECT ` + columns + `
FROM api_log
WHERE org_id = @org_id
ORDER BY id DESC
LIMIT @limit`

func listEntries(ctx context.Context, scope postgres.Scope, limit int) ([]Entry, error) {
	rows, err := postgres.Many[row](ctx, scope, sqlListEntries, postgres.Args{"limit": limit})
	return postgres.Each(rows, row.entry), err
}

const sqlFindEntry = `
SELECT ` + columns + `
FROM api_log
WHERE org_id = @org_id
  AND id = @id`

// Find returns the entry of one request. There is none for up to a second after the request, and none for one
// that was lost.
func Find(ctx context.Context, scope postgres.Scope, id RequestID) (entry Entry, found bool, err error) {
	one, err := postgres.One[row](ctx, scope, sqlFindEntry, postgres.Args{"id": id})
	if errors.Is(err, postgres.ErrNoRow) {
		return Entry{}, false, nil
	}
	return one.entry(), err == nil, err
}

func (r row) entry() Entry {
	entry := Entry{
		OrgID: r.OrgID, ID: r.ID, KeyID: r.KeyID, Method: r.Method, Path: r.Path, Route: r.Route, Status: r.Status,
		Code: r.Code, Duration: time.Duration(r.DurationUs) * time.Microsecond, UserAgent: r.UserAgent, Replayed: r.Replayed,
		Count: r.Count,
	}
	if r.IP != nil {
		entry.IP = *r.IP
	}
	return entry
}
