package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
)

func (a *admin) keyCommand() *cobra.Command {
	return group("key", "API keys", a.keyCreate(), a.keyList(), a.keyRevoke())
}

func (a *admin) keyCreate() *cobra.Command {
	var name, expires string
	command := a.about("create", "Issue a key; it is shown once", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		expiresAt, err := parseTime("expires-at", expires)
		if err != nil {
			return printed{}, err
		}
		key, secret, err := cell.Keys.Issue(ctx, org, a.operator(), apikeys.Draft{Name: name, ExpiresAt: expiresAt})
		return one([]string{"id", "api_key"}, key.ID, secret), err
	})
	command.Flags().StringVar(&name, "name", "", "what the key is for")
	command.Flags().StringVar(&expires, "expires-at", "", "the key is refused from this time on, like 2026-12-31T00:00:00Z")
	return command
}

func (a *admin) keyList() *cobra.Command {
	return a.about("list", "List keys", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		keys, err := cell.Keys.List(ctx, org)
		out := printed{columns: []string{"id", "name", "last4", "created_at", "expires_at", "revoked_at"}, list: true}
		for _, key := range keys {
			out.rows = append(out.rows, []any{
				key.ID, key.Name, key.Last4, clock.Stamp(key.ID.CreatedAt()), clock.StampOrNil(key.ExpiresAt), clock.StampOrNil(key.RevokedAt),
			})
		}
		return out, err
	})
}

func (a *admin) keyRevoke() *cobra.Command {
	var text string
	command := a.about("revoke", "Revoke a key permanently", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		var id apikeys.ID
		if err := id.UnmarshalText([]byte(text)); err != nil {
			return printed{}, fmt.Errorf("--key: %q is not the id of a key", text)
		}
		key, err := cell.Keys.Revoke(ctx, org, a.operator(), id)
		return one([]string{"id", "name", "revoked_at"}, key.ID, key.Name, clock.StampOrNil(key.RevokedAt)), err
	})
	command.Flags().StringVar(&text, "key", "", "the key's id")
	_ = command.MarkFlagRequired("key") // fails only for an unknown flag
	return command
}

func (a *admin) auditCommand() *cobra.Command {
	list := a.about("list", "List the newest entries", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		entries, err := cell.Audit.List(ctx, org, time.Time{}, defaultLimit)
		out := printed{columns: []string{"at", "actor_kind", "actor_id", "action", "target", "detail"}, list: true}
		for _, entry := range entries {
			out.rows = append(out.rows, []any{
				clock.Stamp(entry.ID.CreatedAt()), entry.ActorKind, entry.ActorID, entry.Action, entry.Target, entry.Detail,
			})
		}
		return out, err
	})
	return group("audit", "The audit log", list)
}

func (a *admin) logsCommand() *cobra.Command {
	var limit int
	list := a.about("list", "List the newest requests", func(ctx context.Context, cell *app.Cell, org orgs.ID) (printed, error) {
		if limit < 1 {
			return printed{}, errors.New("--limit: must be 1 or more")
		}
		entries, err := cell.Logs.List(ctx, org, limit)
		out := printed{list: true, columns: []string{
			"at", "request_id", "key_id", "method", "path", "route", "status", "code", "duration_us", "ip", "replayed", "count",
		}}
		for _, e := range entries {
			out.rows = append(out.rows, []any{
				clock.Stamp(e.ID.CreatedAt()), e.ID, e.KeyID, e.Method, e.Path, e.Route, e.Status, e.Code, e.Duration.Microseconds(), e.IP, e.Replayed,
				e.Count,
			})
		}
		return out, err
	})
	limitFlag(list, &limit, "how many")
	return group("logs", "The API log", list)
}
