// Package audit records which principal did what. Every verb that issues, revokes, suspends,
// replays, restores or moves takes its principal as a parameter and records it here, in its own
// transaction. Rows are never changed.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Kind is the kind of a principal.
type Kind string

// The kinds of principals.
const (
	Key    Kind = "key"
	User   Kind = "user"
	System Kind = "system"
)

// Principal is the caller of a verb: an API key, a user, or the service itself. Its organization
// is that of the transaction. Make one by ByKey, ByUser, ByLink or Operator.
type Principal struct {
	Kind Kind
	ID   string
}

// ByKey is the principal of a request with an API key.
func ByKey(id fmt.Stringer) Principal { return Principal{Kind: Key, ID: id.String()} }

// ByUser is the principal of a person.
func ByUser(id fmt.Stringer) Principal { return Principal{Kind: User, ID: id.String()} }

// Operator is the principal of the commands of `parley admin`, for work in which no person is named.
func Operator() Principal { return Principal{Kind: System, ID: "parley admin"} }

// Service is the principal of background work that no person started.
func Service() Principal { return Principal{Kind: System, ID: "parley"} }

// ByLink is the principal of a person who uses a setup link.
func ByLink(id fmt.Stringer) Principal {
	return Principal{Kind: System, ID: "setup link " + id.String()}
}

// OperatorNamed is the principal of the commands of `parley admin` that a person runs.
func OperatorNamed(name string) Principal {
	if name == "" {
		return Operator()
	}
	return Principal{Kind: System, ID: "parley admin: " + name}
}

// ID names an entry.
type ID = ids.Public[entryKind]

type entryKind struct{}

func (entryKind) Prefix() string { return "" }

// Entry is one recorded action.
type Entry struct {
	ID        ID
	ActorKind Kind
	ActorID   string
	Action    string
	Target    string
	Detail    json.RawMessage
}

// Log writes and reads the entries of a cell.
type Log struct {
	db    *postgres.DB
	clock clock.Clock
}

// New builds the log.
func New(db *postgres.DB, clock clock.Clock) *Log { return &Log{db: db, clock: clock} }

const sqlInsert = `
INSERT INTO audit_log (org_id, id, actor_kind, actor_id, action, target, detail)
VALUES (@org_id, @id, @actor_kind, @actor_id, @action, @target, @detail)`

// RecordTx records that a principal did action to target; detail may be nil.
func (l *Log) RecordTx(ctx context.Context, tx *postgres.Tx, by Principal, action, target string, detail map[string]any) error {
	if detail == nil {
		detail = map[string]any{}
	}
	_, err := tx.Exec(ctx, sqlInsert, postgres.Args{
		"id":         ids.New[entryKind](l.clock.Now()),
		"actor_kind": by.Kind,
		"actor_id":   by.ID,
		"action":     action,
		"target":     target,
		"detail":     detail,
	})
	return err
}

// Record is RecordTx in a transaction of its own, for an action that has none of the organization.
func (l *Log) Record(ctx context.Context, org ids.Org, by Principal, action, target string, detail map[string]any) error {
	_, err := postgres.InTx(ctx, l.db, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, l.RecordTx(ctx, tx, by, action, target, detail)
	})
	return err
}

const sqlList = `
SELECT id, actor_kind, actor_id, action, target, detail
FROM audit_log
WHERE org_id = @org_id
  AND id >= @since
ORDER BY id DESC
LIMIT @limit`

// List returns the newest entries since a time, newest first.
func (l *Log) List(ctx context.Context, org ids.Org, since time.Time, limit int) ([]Entry, error) {
	return postgres.Many[Entry](ctx, l.db.Of(org), sqlList, postgres.Args{"since": ids.Floor[entryKind](since), "limit": limit})
}
