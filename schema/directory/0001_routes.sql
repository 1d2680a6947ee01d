-- +goose Up

-- The databases in which organizations live.
CREATE TABLE directory.cells (
    name text PRIMARY KEY,
    -- A new organization goes to the cell that accepts them and has the fewest.
    accepts_organizations boolean NOT NULL DEFAULT true
);

-- Where each organization lives. The epoch grows with each move.
CREATE TABLE directory.org_routes (
    org_id uuid PRIMARY KEY,
    cell text NOT NULL REFERENCES directory.cells,
    epoch bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('claimed', 'confirmed')),
    changed_at timestamptz NOT NULL
);

CREATE INDEX org_routes_cell ON directory.org_routes (cell);
CREATE INDEX org_routes_unsettled ON directory.org_routes (changed_at) WHERE state = 'claimed';

-- The owners of keys, tokens and numbers. Only this table makes them unique in the whole service.
-- A released route keeps its row, so that its generation never repeats.
CREATE TABLE directory.routes (
    kind text NOT NULL CHECK (kind IN ('api_key', 'setup_token', 'phone_number')),
    key bytea NOT NULL,
    org_id uuid NOT NULL,
    generation bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('claimed', 'confirmed', 'releasing', 'released')),
    changed_at timestamptz NOT NULL,
    -- The business account of a phone_number. Each organization with a number of a business account
    -- gets the notifications of that business account.
    business_account_id text,
    PRIMARY KEY (kind, key)
);

CREATE INDEX routes_unsettled ON directory.routes (changed_at) WHERE state IN ('claimed', 'releasing');
CREATE INDEX routes_business_account ON directory.routes (business_account_id)
    WHERE business_account_id IS NOT NULL;
