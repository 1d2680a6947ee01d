package labels

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
)

const columns = `id, team_id, name, color, updated_at`

const sqlInsertLabel = `
INSERT INTO labels (org_id, id, team_id, name, name_key, color, updated_at)
VALUES (@org_id, @id, @team_id, @name, @name_key, @color, @updated_at)`

func insertLabel(ctx context.Context, tx *postgres.Tx, l Label) error {
	_, err := tx.Exec(ctx, sqlInsertLabel, l.values())
	return err
}

// values are the columns of a label, and the key under which its name is unique.
func (l Label) values() postgres.Args {
	return postgres.Args{
		"id": l.ID, "team_id": l.TeamID, "name": l.Name, "name_key": textkey.Fold(l.Name), "color": l.Color, "updated_at": l.UpdatedAt,
	}
}

const sqlLabelByID = `
SELECT ` + columns + `
FROM labels
WHERE org_id = @org_id
  AND id = @id`

func labelByID(ctx context.Context, scope postgres.Scope, id ID) (Label, error) {
	return postgres.One[Label](ctx, scope, sqlLabelByID, postgres.Args{"id": id})
}

func lockLabel(ctx context.Context, tx *postgres.Tx, id ID) (Label, error) {
	return postgres.One[Label](ctx, tx, sqlLabelByID+` FOR UPDATE`, postgres.Args{"id": id})
}

func keepLabel(ctx context.Context, tx *postgres.Tx, id ID) (Label, error) {
	return postgres.One[Label](ctx, tx, sqlLabelByID+` FOR KEY SHARE`, postgres.Args{"id": id})
}

const sqlLabelByName = `
SELECT ` + columns + `
FROM labels
WHERE org_id = @org_id
  AND team_id = @team_id
  AND name_key = @name_key`

func labelByName(ctx context.Context, scope postgres.Scope, team orgs.TeamID, name string) (Label, error) {
	return postgres.One[Label](ctx, scope, sqlLabelByName, postgres.Args{"team_id": team, "name_key": textkey.Fold(name)})
}

const sqlListLabels = `
SELECT ` + columns + `
FROM labels
WHERE org_id = @org_id
  AND id < @after
ORDER BY id DESC
LIMIT @limit`

func listLabels(ctx context.Context, scope postgres.Scope, slice paging.Slice[ID]) (paging.Page[Label, ID], error) {
	return paging.Read(ctx, scope, sqlListLabels, nil, slice, func(l Label) ID { return l.ID })
}

const sqlUpdateLabel = `
UPDATE labels
SET name = @name,
    name_key = @name_key,
    color = @color,
    updated_at = @updated_at
WHERE org_id = @org_id
  AND id = @id`

func updateLabel(ctx context.Context, tx *postgres.Tx, l Label) error {
	_, err := tx.Exec(ctx, sqlUpdateLabel, l.values())
	return err
}

const sqlDeleteLabel = `
DELETE FROM labels
WHERE org_id = @org_id
  AND id = @id
RETURNING ` + columns

func deleteLabel(ctx context.Context, tx *postgres.Tx, id ID) (Label, error) {
	return postgres.One[Label](ctx, tx, sqlDeleteLabel, postgres.Args{"id": id})
}
