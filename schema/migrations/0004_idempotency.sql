-- +goose Up

-- The answer to a request with an Idempotency-Key, sealed, committed with its effect.
-- A key is unique for 24 hours: two days are looked at under the key's lock.
CREATE TABLE idempotency_keys (
    org_id uuid NOT NULL,
    key text NOT NULL COLLATE "C",
    created_at timestamptz NOT NULL,
    fingerprint bytea NOT NULL,
    answer bytea NOT NULL,
    PRIMARY KEY (org_id, key, created_at)
) PARTITION BY RANGE (created_at);
