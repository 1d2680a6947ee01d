package library

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const columns = `id, team_id, type, mime_type, size, filename, key`

const sqlInsertFile = `
INSERT INTO library_files (org_id, id, team_id, type, mime_type, size, filename, key)
VALUES (@org_id, @id, @team_id, @type, @mime_type, @size, @filename, @key)`

func insertFile(ctx context.Context, tx *postgres.Tx, f File) error {
	_, err := tx.Exec(ctx, sqlInsertFile, postgres.Args{
		"id": f.ID, "team_id": f.TeamID, "type": f.Type, "mime_type": f.MIMEType, "size": f.Size, "filename": f.Filename, "key": f.Key,
	})
	return err
}

const sqlFileByID = `
SELECT ` + columns + `
FROM library_files
WHERE org_id = @org_id
  AND id = @id`

func fileByID(ctx context.Context, scope postgres.Scope, id ID) (File, error) {
	return postgres.One[File](ctx, scope, sqlFileByID, postgres.Args{"id": id})
}

const sqlFilesOf = `
SELECT ` + columns + `
FROM library_files
WHERE org_id = @org_id
  AND id = ANY (@ids)
  AND team_id = @team_id`

func filesOf(ctx context.Context, scope postgres.Scope, team orgs.TeamID, asked []ID) (map[ID]File, error) {
	rows, err := postgres.Many[File](ctx, scope, sqlFilesOf, postgres.Args{"ids": asked, "team_id": team})
	found := make(map[ID]File, len(rows))
	for _, file := range rows {
		found[file.ID] = file
	}
	return found, err
}

const sqlListFiles = `
SELECT ` + columns + `
FROM library_files
WHERE org_id = @org_id
  AND id < @after
ORDER BY id DESC
LIMIT @limit`

func listFiles(ctx context.Context, scope postgres.Scope, slice paging.Slice[ID]) (paging.Page[File, ID], error) {
	return paging.Read(ctx, scope, sqlListFiles, nil, slice, func(f File) ID { return f.ID })
}

const sqlDeleteFile = `
DELETE FROM library_files
WHERE org_id = @org_id
  AND id = @id
RETURNING ` + columns

func deleteFile(ctx context.Context, tx *postgres.Tx, id ID) (File, error) {
	return postgres.One[File](ctx, tx, sqlDeleteFile, postgres.Args{"id": id})
}
