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

    -- Derived from the other columns, and stored because lists filter by it.
    status text NOT NULL CHECK (status IN ('connected', 'disconnected', 'degraded', 'onboarding')),
    status_reason text,

    -- The provider's last answer: the number's status, whether its callbacks are sent to us, and
    -- the error if it refused.
    provider_status text,
    subscribed boolean NOT NULL,
    refusal text,
    checked_at timestamptz NOT NULL,
    -- The newest notification of each kind with its time, so that a late notification never
    -- replaces a newer one.
    notices jsonb NOT NULL DEFAULT '{}',
    quality text,
    messaging_limit text,
    throughput text,
    -- The number is in use in the phone app too.
    coexistence boolean NOT NULL DEFAULT false,
    -- Until when the provider refuses every message of the number, if it said so.
    cooldown_until timestamptz,

    -- When it was first connected. An account with this time is never onboarding again.
    connected_at timestamptz,
    -- The provider's token, sealed.
    token bytea NOT NULL,
    -- The generation of the number's route in the directory. A number may be released and claimed
    -- again.
    generation bigint NOT NULL,

    -- The registration under way, and the times at which PINs were tried. PINs are not stored.
    registering_until timestamptz,
    pin_tried_at timestamptz[] NOT NULL DEFAULT '{}',

    -- When the next job is due: a refresh, or the purge of a deleted account.
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
