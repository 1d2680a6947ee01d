-- +goose Up

-- Only the hash of a key is kept; the key itself is 144 random bits and shown once.
CREATE TABLE api_keys (
    org_id uuid NOT NULL REFERENCES organizations,
    id uuid NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    last4 text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (org_id, id),
    -- A key is looked up in the organization that the directory names.
    CONSTRAINT api_keys_hash_unique UNIQUE (org_id, hash)
);
