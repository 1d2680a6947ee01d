package main

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
)

// The statements of GET /v1/labels, as the product runs them.
const (
	bareCaller = `
SELECT o.org_id, k.id AS key_id, k.expires_at, k.revoked_at, o.epoch, o.frozen_at,
       o.subscription_status, o.trial_ends_at, o.suspended_at,
       p.api_access, p.customers, p.rate_per_second, p.rate_burst
FROM organizations o
JOIN plans p ON p.name = o.plan
LEFT JOIN api_keys k ON k.org_id = o.org_id AND k.hash = $1
WHERE o.org_id = $2`
	bareList = `
SELECT id, team_id, name, color, updated_at
FROM labels
WHERE org_id = $1
  AND id < $2
ORDER BY id DESC
LIMIT $3`
)

// bareLabels is the least that answers the request of an organization: two statements and an encoder.
func bareLabels(pool *pgxpool.Pool, home orgs.ID) http.HandlerFunc {
	last := pgtype.UUID{Valid: true}
	for i := range last.Bytes {
		last.Bytes[i] = 0xff
	}
	return func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
		var org, key pgtype.UUID
		var expires, revoked, frozen, trial, suspended *time.Time
		var epoch int64
		var subscription string
		var access, customers bool
		var rate, burst int
		err := pool.QueryRow(r.Context(), bareCaller, hash[:], home).Scan(
			&org, &key, &expires, &revoked, &epoch, &frozen, &subscription, &trial, &suspended, &access, &customers, &rate, &burst)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		rows, _ := pool.Query(r.Context(), bareList, org, last, 26)
		var label labels.Label
		page := []labels.Resource{}
		_, err = pgx.ForEachRow(rows, []any{&label.ID, &label.TeamID, &label.Name, &label.Color, &label.UpdatedAt}, func() error {
			page = append(page, label.Resource())
			return nil
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body, _ := json.Marshal(map[string]any{"data": page, "has_more": false, "next_cursor": nil, "request_id": "bare"})
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}
