-- +goose Up

-- A business number of the organization or of one of its customers.
CREATE TABLE accounts (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    team_id uuid NOT NULL,
    customer_id uuid,
    business_account_id text NOT NULL COLLATE "C",
    -- Null while onboarding is in flight.
    phone_number_id text COLLATE "C",
    phone_number text,
    name text,

    -- What follows from all that is known, kept with it: lists filter by it.
    status text NOT NULL CHECK (status IN ('connected', 'disconnected', 'degraded', 'onboarding')),
    status_reason text,

    -- What the provider answered when it was last asked: the number's status, whether its
    -- callbacks come to us, and why the question was refused.
    provider_status text,
    subscribed boolean NOT NULL,
    refusal text,
    checked_at timestamptz NOT NULL,
    -- What the provider said by itself, each thing with the time of its newest word: what
    -- arrives late never undoes what is newer.
    notices jsonb NOT NULL DEFAULT '{}',
    quality text,
    messaging_limit text,
    throughput text,

    -- Once it was connected it is never onboarding again.
    connected_at timestamptz,
    -- The provider's token, sealed.
    token bytea NOT NULL,
    -- The route's in the directory: a number may leave and come back.
    generation bigint NOT NULL,

    -- One registration at a time; and when PINs were tried, never which.
    registering_until timestamptz,
    pin_tried_at timestamptz[] NOT NULL DEFAULT '{}',

    -- When it is looked at next: asked about, or purged once it was deleted.
    due_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams,
    FOREIGN KEY (org_id, customer_id) REFERENCES customers
);

CREATE UNIQUE INDEX accounts_number ON accounts (org_id, phone_number_id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_customer ON accounts (org_id, customer_id, id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_business_account ON accounts (org_id, business_account_id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_due ON accounts (due_at);
