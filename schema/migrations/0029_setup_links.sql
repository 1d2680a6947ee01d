-- +goose Up

-- The time of a customer's newest event, those of its setup links too. The events of a customer are in this order.
-- Null in rows of an older version: then updated_at is the order.
ALTER TABLE customers ADD COLUMN last_event_at timestamptz;

-- Only the hash of a link's token is kept; the token itself is 256 random bits and shown once.
CREATE TABLE setup_links (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    customer_id uuid NOT NULL,
    token_hash bytea NOT NULL CHECK (length(token_hash) = 32),
    token_last4 text NOT NULL,
    expires_at timestamptz NOT NULL,
    -- A link is active while both are null and expires_at is ahead.
    consumed_at timestamptz,
    revoked_at timestamptz,
    -- A visitor is connecting a number; nobody else may until then, or until the visitor is done.
    completing_until timestamptz,
    -- The account that was connected, and the hash of the visitor's session. The account may have been purged since.
    account_id uuid,
    session_hash bytea,
    success_redirect_url text,
    failure_redirect_url text,
    PRIMARY KEY (org_id, id),
    -- A token is looked up in the organization that the directory names.
    UNIQUE (org_id, token_hash),
    FOREIGN KEY (org_id, customer_id) REFERENCES customers,
    CHECK (consumed_at IS NULL OR revoked_at IS NULL)
);

CREATE INDEX setup_links_customer ON setup_links (org_id, customer_id, id);
