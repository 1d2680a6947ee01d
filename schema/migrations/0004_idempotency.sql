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

-- A request that calls the provider before it answers cannot commit its effect with its
-- answer. It holds its Idempotency-Key by a lease. When a lease has expired without an answer,
-- the next request with the key asks the provider what happened.
CREATE TABLE idempotency_leases (
    org_id uuid NOT NULL,
    key text NOT NULL COLLATE "C",
    created_at timestamptz NOT NULL,
    fingerprint bytea NOT NULL,
    holder uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, key, created_at)
) PARTITION BY RANGE (created_at);
