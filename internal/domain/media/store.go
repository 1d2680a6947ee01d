package media

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// argAccount is the argument of statements that are about one number.
const argAccount = "account_id"

// download is a file that is to be fetched.
type download struct {
	ID              ids.Any
	AccountID       accounts.ID
	ProviderMediaID string
	URL             string
	SHA256          []byte
	MIMEType        string
	Filename        string
	Key             string
	Tries           int
	Event           []byte

	size int64
}

func (d *download) outcome(state State) Outcome {
	return Outcome{MessageID: d.ID, State: state, Key: d.Key, MIMEType: d.MIMEType, Size: d.size, Event: d.Event}
}

type messageKind struct{}

func (messageKind) Prefix() string { return "msg_" }

// createdAt is when the message was stored.
func (d *download) createdAt() time.Time { return ids.From[messageKind](d.ID).CreatedAt() }

const downloadColumns = `id, account_id, provider_media_id, url, sha256, mime_type, filename, key, tries, event`

const (
	sqlInsertDownloads = `
INSERT INTO media_downloads (org_id, id, account_id, provider_media_id, url, sha256, mime_type, filename, key, event, waits_until)
SELECT @org_id, id, @account_id, provider_media_id, url, sha256, mime_type, filename, key, event, @waits_until
FROM unnest(@ids::uuid[], @provider_media_ids::text[], @urls::text[], @sums::bytea[], @mime_types::text[], @filenames::text[],
    @keys::text[], @events::bytea[]) AS given (id, provider_media_id, url, sha256, mime_type, filename, key, event)`
	sqlDownloadsByID = `
SELECT ` + downloadColumns + `
FROM media_downloads
WHERE org_id = @org_id
  AND id = ANY (@ids)`
	sqlEndDownloads = `
WITH again AS (
    UPDATE media_downloads d
    SET tries = given.tries,
        waits_until = CASE WHEN given.tries >= @enough THEN NULL ELSE waits_until END
    FROM unnest(@again::uuid[], @tries::smallint[]) AS given (id, tries)
    WHERE d.org_id = @org_id AND d.id = given.id
)
DELETE FROM media_downloads
WHERE org_id = @org_id
  AND id = ANY (@done)`
	sqlLateNumbers = `
SELECT org_id, account_id
FROM media_downloads
WHERE waits_until <= @until
GROUP BY org_id, account_id
ORDER BY min(waits_until)
LIMIT 100`
	sqlLateOf = `
SELECT ` + downloadColumns + `
FROM media_downloads
WHERE org_id = @org_id
  AND account_id = @account_id
  AND waits_until <= @until
ORDER BY id
LIMIT 500`
	sqlEndEventWaits = `
UPDATE media_downloads
SET waits_until = NULL
WHERE org_id = @org_id
  AND id = ANY (@ids)`
)

// sqlPurge deletes the rows of a number. No index serves the account: each portion reads the next rows of the
// organization.
func sqlPurge(table string) string {
	return `
WITH walked AS MATERIALIZED (
    SELECT id, account_id = @account_id AS doomed
    FROM ` + table + `
    WHERE org_id = @org_id
      AND id > @after
    ORDER BY id
    LIMIT 10 * @limit
), gone AS (
    DELETE FROM ` + table + `
    WHERE org_id = @org_id
      AND id = ANY (ARRAY (SELECT id FROM walked WHERE doomed))
)
SELECT id FROM walked ORDER BY id DESC LIMIT 1`
}

func insertDownloads(ctx context.Context, tx *postgres.Tx, of accounts.ID, files []File, waitsUntil time.Time) error {
	args := postgres.Columns(files,
		postgres.Col("ids", func(f File) ids.Any { return f.MessageID }),
		postgres.Col("provider_media_ids", func(f File) string { return f.Ref.ID }),
		postgres.Col("urls", func(f File) string { return f.Ref.URL }),
		postgres.Col("sums", func(f File) []byte { return f.Ref.SHA256 }),
		postgres.Col("mime_types", func(f File) string { return f.Ref.MIMEType }),
		postgres.Col("filenames", func(f File) string { return f.Ref.Filename }),
		postgres.Col("keys", func(f File) string { return f.Key }),
		postgres.Col("events", func(f File) []byte { return f.Event }))
	args[argAccount], args["waits_until"] = of, waitsUntil
	_, err := tx.Exec(ctx, sqlInsertDownloads, args)
	return err
}

// transfersByID finds the downloads and the waiting messages of rows.
func transfersByID(ctx context.Context, scope postgres.Scope, asked []ids.Any) (map[ids.Any]*transfer, error) {
	found := make(map[ids.Any]*transfer, len(asked))
	downloads, err := postgres.Many[download](ctx, scope, sqlDownloadsByID, postgres.Args{"ids": asked})
	if err != nil {
		return nil, err
	}
	for i := range downloads {
		found[downloads[i].ID] = &transfer{down: &downloads[i]}
	}
	if len(found) == len(asked) {
		return found, nil
	}
	sends, err := postgres.Many[waiting](ctx, scope, sqlWaitingByID, postgres.Args{"ids": asked})
	for i := range sends {
		found[sends[i].ID] = &transfer{up: &sends[i]}
	}
	return found, err
}

func endDownloads(ctx context.Context, tx *postgres.Tx, done, again []*download) error {
	id := func(d *download) ids.Any { return d.ID }
	_, err := tx.Exec(ctx, sqlEndDownloads, postgres.Args{
		"done": postgres.Each(done, id), "again": postgres.Each(again, id), "enough": triesBeforeEvent,
		"tries": postgres.Each(again, func(d *download) int { return d.Tries }),
	})
	return err
}

type number struct {
	OrgID     orgs.ID
	AccountID accounts.ID
}

func lateNumbers(ctx context.Context, db *postgres.DB, until time.Time) ([]number, error) {
	return postgres.Many[number](ctx, db.System("events that wait for files"), sqlLateNumbers, postgres.Args{"until": until})
}

func lateOf(ctx context.Context, tx *postgres.Tx, of accounts.ID, until time.Time) ([]download, error) {
	return postgres.Many[download](ctx, tx, sqlLateOf, postgres.Args{argAccount: of, "until": until})
}

func endEventWaits(ctx context.Context, tx *postgres.Tx, all []download) error {
	_, err := tx.Exec(ctx, sqlEndEventWaits, postgres.Args{"ids": postgres.Each(all, func(d download) ids.Any { return d.ID })})
	return err
}

const (
	sqlInsertDeletions = `
INSERT INTO media_deletions (org_id, key, due_at)
SELECT @org_id, key, @now FROM unnest(@keys::text[]) AS key
ON CONFLICT (org_id, key) DO UPDATE SET due_at = EXCLUDED.due_at`
	sqlDueDeletions = `
SELECT org_id, key, deleted
FROM media_deletions
WHERE due_at <= @now
ORDER BY due_at
LIMIT 500`
	sqlDeleteAgain = `
UPDATE media_deletions
SET deleted = true, due_at = @due_at
WHERE org_id = @org_id
  AND key = @key`
	sqlKeepFile = `
DELETE FROM media_deletions
WHERE org_id = @org_id
  AND key = @key
  AND NOT deleted`
	sqlHastenDeletion = `
UPDATE media_deletions
SET due_at = @now
WHERE org_id = @org_id
  AND key = @key
  AND due_at > @now`
	sqlEndDeletion = `
DELETE FROM media_deletions
WHERE org_id = @org_id
  AND key = @key`
)

// deletion is a file that is to be deleted, or to be deleted again.
type deletion struct {
	OrgID   orgs.ID
	Key     string
	Deleted bool
}

func insertDeletions(ctx context.Context, tx *postgres.Tx, keys []string, now time.Time) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlInsertDeletions, postgres.Args{"keys": keys, "now": now})
	return err
}

func dueDeletions(ctx context.Context, db *postgres.DB, now time.Time) ([]deletion, error) {
	return postgres.Many[deletion](ctx, db.System("files to delete"), sqlDueDeletions, postgres.Args{"now": now})
}

func endDeletion(ctx context.Context, tx *postgres.Tx, one deletion, again time.Time) error {
	sql, args := sqlDeleteAgain, postgres.Args{"key": one.Key, "due_at": again}
	if one.Deleted {
		sql, args = sqlEndDeletion, postgres.Args{"key": one.Key}
	}
	_, err := tx.Exec(ctx, sql, args)
	return err
}

func keepFile(ctx context.Context, tx *postgres.Tx, key string) (kept bool, err error) {
	count, err := tx.Exec(ctx, sqlKeepFile, postgres.Args{"key": key})
	return count > 0, err
}

func hastenDeletion(ctx context.Context, tx *postgres.Tx, key string, now time.Time) error {
	_, err := tx.Exec(ctx, sqlHastenDeletion, postgres.Args{"key": key, "now": now})
	return err
}
