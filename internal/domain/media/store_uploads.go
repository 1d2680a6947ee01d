package media

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// waiting is a message that waits until its files are uploaded.
type waiting struct {
	ID        ids.Any
	AccountID accounts.ID
	Files     []LibraryFile
	Priority  int
	Tries     int
}

const (
	sqlInsertWaiting = `
INSERT INTO media_waiting (org_id, id, account_id, files, priority)
SELECT @org_id, id, @account_id, files, priority
FROM unnest(@ids::uuid[], @files::json[], @priorities::smallint[]) AS given (id, files, priority)`
	sqlWaitingByID = `
SELECT id, account_id, files, priority, tries
FROM media_waiting
WHERE org_id = @org_id
  AND id = ANY (@ids)`
	sqlCountTries = `
UPDATE media_waiting w
SET tries = given.tries
FROM unnest(@ids::uuid[], @tries::smallint[]) AS given (id, tries)
WHERE w.org_id = @org_id
  AND w.id = given.id`
	sqlEndWaiting = `
DELETE FROM media_waiting
WHERE org_id = @org_id
  AND id = ANY (@ids)`
	sqlUploads = `
SELECT file_id, provider_media_id
FROM media_uploads
WHERE org_id = @org_id
  AND account_id = @account_id
  AND file_id = ANY (@files)
  AND uploaded_at > @after`
	sqlProgress = `
SELECT (SELECT tries FROM media_waiting WHERE org_id = @org_id AND id = @id) AS tries,
       (SELECT max(uploaded_at) FROM media_uploads
        WHERE org_id = @org_id AND account_id = @account_id AND file_id = ANY (@files)) AS uploaded_at`
	// Old uploads of the number are deleted when it uploads: the provider does not have them any more.
	sqlWriteUpload = `
WITH old AS (
    DELETE FROM media_uploads
    WHERE org_id = @org_id
      AND account_id = @account_id
      AND uploaded_at <= @after
      AND file_id <> @file_id
)
INSERT INTO media_uploads (org_id, account_id, file_id, provider_media_id, uploaded_at)
VALUES (@org_id, @account_id, @file_id, @provider_media_id, @now)
ON CONFLICT (org_id, account_id, file_id) DO UPDATE
SET provider_media_id = EXCLUDED.provider_media_id,
    uploaded_at = EXCLUDED.uploaded_at`
	sqlPurgeUploads = `
DELETE FROM media_uploads
WHERE org_id = @org_id
  AND account_id = @account_id
  AND file_id = ANY (ARRAY (
      SELECT file_id FROM media_uploads
      WHERE org_id = @org_id AND account_id = @account_id AND file_id > @after ORDER BY file_id LIMIT @limit))
RETURNING file_id`
)

func insertWaiting(ctx context.Context, tx *postgres.Tx, of accounts.ID, all []Waiting) error {
	args := postgres.Columns(all,
		postgres.Col("ids", func(w Waiting) ids.Any { return w.MessageID }),
		postgres.Col("files", func(w Waiting) json.RawMessage {
			text, _ := json.Marshal(w.Files) // texts and numbers cannot fail
			return text
		}),
		postgres.Col("priorities", func(w Waiting) int { return w.Priority }))
	args[argAccount] = of
	_, err := tx.Exec(ctx, sqlInsertWaiting, args)
	return err
}

func countTries(ctx context.Context, tx *postgres.Tx, again []*waiting) error {
	if len(again) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlCountTries, postgres.Args{
		"ids":   postgres.Each(again, func(w *waiting) ids.Any { return w.ID }),
		"tries": postgres.Each(again, func(w *waiting) int { return w.Tries }),
	})
	return err
}

func endWaiting(ctx context.Context, tx *postgres.Tx, released []Released) error {
	_, err := tx.Exec(ctx, sqlEndWaiting, postgres.Args{"ids": postgres.Each(released, func(r Released) ids.Any { return r.MessageID })})
	return err
}

func uploadsOf(
	ctx context.Context, scope postgres.Scope, of accounts.ID, files []ids.Any, after time.Time,
) (map[ids.Any]string, error) {
	type row struct {
		FileID          ids.Any
		ProviderMediaID string
	}
	rows, err := postgres.Many[row](ctx, scope, sqlUploads, postgres.Args{argAccount: of, "files": files, "after": after})
	found := make(map[ids.Any]string, len(rows))
	for _, one := range rows {
		found[one.FileID] = one.ProviderMediaID
	}
	return found, err
}

func writeUpload(
	ctx context.Context, tx *postgres.Tx, of accounts.ID, file ids.Any, providerID string, now, oldest time.Time,
) error {
	_, err := tx.Exec(ctx, sqlWriteUpload, postgres.Args{
		argAccount: of, "file_id": file, "provider_media_id": providerID, "now": now, "after": oldest,
	})
	return err
}

func progressOf(ctx context.Context, scope postgres.Scope, of accounts.ID, message ids.Any, files []ids.Any) (Progress, error) {
	return postgres.One[Progress](ctx, scope, sqlProgress, postgres.Args{argAccount: of, "id": message, "files": files})
}
