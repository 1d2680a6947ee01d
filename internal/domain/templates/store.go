package templates

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/jsonout"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	columns = `id, account_id, provider_template_id, name, language, status, provider_status, category, parameter_format, content,
    variables, components, rejection_reason, quality, digest, said, heard_at, updated_at`
	sqlTemplates = `
SELECT ` + columns + `
FROM templates
WHERE org_id = @org_id`
	sqlOfAccount = sqlTemplates + `
  AND account_id = @account_id`
	sqlNewest = `
ORDER BY id DESC
LIMIT 1`
)

// The conditions of a list. Each is in the statement only when the filter has it. No index
// serves the language.
const (
	sqlAfter        = ` AND id < @after`
	sqlWithStatus   = ` AND status = @status`
	sqlWithLanguage = `language = @language`
)

// walked is a template that a Walk read.
type walked struct {
	Template
	paging.Mark
}

func listTemplates(
	ctx context.Context, scope postgres.Scope, account accounts.ID, filter Filter, slice paging.Slice[ID],
) (paging.Page[Template, ID], error) {
	walk := paging.Walk{Rows: sqlOfAccount + sqlAfter, Order: `id DESC`, Filter: `true`}
	if filter.Status != "" {
		walk.Rows += sqlWithStatus
	}
	if filter.Language != "" {
		walk.Filter = sqlWithLanguage
	}
	args := postgres.Args{argAccount: account, "status": filter.Status, "language": filter.Language}
	return paging.ReadWalk(ctx, scope, walk.SQL(), args, slice,
		func(w walked) Template { return w.Template }, func(t Template) ID { return t.ID })
}

const argAccount = "account_id"

// templateByName is the newest template of a name, or its template in a language.
func templateByName(ctx context.Context, scope postgres.Scope, account accounts.ID, name, language string) (Template, error) {
	sql := sqlOfAccount + ` AND name = @name`
	if language != "" {
		sql += ` AND ` + sqlWithLanguage
	}
	return postgres.One[Template](ctx, scope, sql+sqlNewest, postgres.Args{argAccount: account, "name": name, "language": language})
}

const sqlLanguages = `
SELECT language
FROM templates
WHERE org_id = @org_id
  AND account_id = @account_id
  AND name = @name
ORDER BY language`

// languagesOf are the languages in which a name exists.
func languagesOf(ctx context.Context, scope postgres.Scope, account accounts.ID, name string) ([]string, error) {
	return postgres.Many[string](ctx, scope, sqlLanguages, postgres.Args{argAccount: account, "name": name})
}

// known is what a sync must know of a template to see whether it changed.
type known struct {
	ID       ID
	Name     string
	Language string
	Digest   []byte
	// Fresh ones were heard of or changed while the provider was being read.
	Fresh bool
}

const sqlKnown = `
SELECT id, name, language, digest, greatest(heard_at, updated_at) > @read_at AS fresh
FROM templates
WHERE org_id = @org_id
  AND account_id = @account_id
ORDER BY id
FOR UPDATE`

func lockKnown(ctx context.Context, tx *postgres.Tx, account accounts.ID, readAt time.Time) ([]known, error) {
	return postgres.Many[known](ctx, tx, sqlKnown, postgres.Args{argAccount: account, "read_at": readAt})
}

// row is a template on its way to the database; many go in one statement.
type row struct {
	ID              string          `json:"id"`
	ProviderID      *string         `json:"provider_template_id"`
	Name            string          `json:"name"`
	Language        string          `json:"language"`
	Status          Status          `json:"status"`
	ProviderStatus  *string         `json:"provider_status"`
	Category        *string         `json:"category"`
	ParameterFormat *string         `json:"parameter_format"`
	Content         string          `json:"content"`
	Variables       []string        `json:"variables"`
	Components      json.RawMessage `json:"components"`
	Reason          *string         `json:"rejection_reason"`
	Quality         *string         `json:"quality"`
	Digest          string          `json:"digest"`
}

const sqlKeep = `
INSERT INTO templates AS t (org_id, id, account_id, provider_template_id, name, language, status, provider_status, category,
    parameter_format, content, variables, components, rejection_reason, quality, digest, updated_at)
SELECT @org_id, x.id, @account_id, x.provider_template_id, x.name, x.language, x.status, x.provider_status, x.category,
    x.parameter_format, x.content, x.variables, x.components, x.rejection_reason, x.quality, decode(x.digest, 'hex'), @now
FROM json_to_recordset(@rows::json) AS x (
    id uuid, provider_template_id text, name text, language text, status text, provider_status text, category text,
    parameter_format text, content text, variables text[], components json, rejection_reason text, quality text, digest text
)
ON CONFLICT (org_id, id) DO UPDATE
SET provider_template_id = excluded.provider_template_id,
    status = excluded.status,
    provider_status = excluded.provider_status,
    category = excluded.category,
    parameter_format = excluded.parameter_format,
    content = excluded.content,
    variables = excluded.variables,
    components = excluded.components,
    rejection_reason = excluded.rejection_reason,
    quality = excluded.quality,
    digest = excluded.digest,
    updated_at = excluded.updated_at`

func keepTemplates(ctx context.Context, tx *postgres.Tx, account accounts.ID, all []Template, now time.Time) error {
	rows := make([]row, len(all))
	for i, t := range all {
		rows[i] = row{
			ID: t.ID.Any().String(), ProviderID: t.ProviderTemplateID, Name: t.Name, Language: t.Language, Status: t.Status,
			ProviderStatus: t.ProviderStatus, Category: t.Category, ParameterFormat: t.ParameterFormat, Content: t.Content,
			Variables: t.Variables, Components: t.Components, Reason: t.RejectionReason, Quality: t.Quality,
			Digest: hex.EncodeToString(t.Digest),
		}
	}
	encoded, err := jsonout.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sqlKeep, postgres.Args{argAccount: account, "rows": string(encoded), "now": now})
	return err
}

const sqlRemove = `
DELETE FROM templates
WHERE org_id = @org_id
  AND id = ANY (@ids)`

func removeTemplates(ctx context.Context, tx *postgres.Tx, gone []ID) error {
	_, err := tx.Exec(ctx, sqlRemove, postgres.Args{"ids": gone})
	return err
}

// Templates of every number of a business account that have the provider's id, or the name
// and language where it gave none.
const sqlConcerned = sqlTemplates + `
  AND provider_template_id = @provider_template_id
ORDER BY id
FOR UPDATE`

func lockConcerned(ctx context.Context, tx *postgres.Tx, ref provider.TemplateRef) ([]Template, error) {
	return postgres.Many[Template](ctx, tx, sqlConcerned, postgres.Args{"provider_template_id": ref.ID})
}

const sqlHear = `
UPDATE templates
SET status = @status,
    provider_status = @provider_status,
    category = @category,
    rejection_reason = @rejection_reason,
    quality = @quality,
    digest = @digest,
    said = @said,
    heard_at = @heard_at,
    updated_at = @updated_at
WHERE org_id = @org_id
  AND id = @id`

func hearTemplate(ctx context.Context, tx *postgres.Tx, t Template) error {
	_, err := tx.Exec(ctx, sqlHear, postgres.Args{
		"id": t.ID, "status": t.Status, "provider_status": t.ProviderStatus, "category": t.Category, "rejection_reason": t.RejectionReason,
		"quality": t.Quality, "digest": t.Digest, "said": t.Said, "heard_at": t.HeardAt, "updated_at": t.UpdatedAt,
	})
	return err
}

// Deletes at most @limit templates of a number.
const sqlPurge = `
DELETE FROM templates
WHERE org_id = @org_id
  AND id = ANY (ARRAY (
      SELECT id FROM templates WHERE org_id = @org_id AND account_id = @account_id AND id > @after ORDER BY id LIMIT @limit))
RETURNING id`
