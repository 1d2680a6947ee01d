-- +goose Up

-- The bodies that the provider pushed, divided by number or business account. A row is written
-- once and never updated.
CREATE TABLE callbacks (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    -- Null for a body that concerns a business account as a whole.
    phone_number_id text COLLATE "C",
    -- Of the number's route: a number may be disconnected and connected again.
    generation bigint,
    business_account_id text COLLATE "C",
    body bytea NOT NULL,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

-- Items that no consumer takes yet, and dead letters. Each can be processed again.
CREATE TABLE callback_items (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    state text NOT NULL CHECK (state IN ('unhandled', 'dead')),
    reason text NOT NULL,
    -- The provider's name of the kind of change; empty for a body that was not read.
    field text NOT NULL,
    phone_number_id text COLLATE "C",
    generation bigint,
    business_account_id text COLLATE "C",
    -- A body with this item alone.
    body bytea NOT NULL,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);
