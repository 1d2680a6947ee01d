-- +goose Up

-- What the provider pushed, as far as it concerns one number or one business account of the
-- organization: the raw bytes, or the items of a body that named several.
CREATE TABLE callbacks (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    -- Null for what concerns a business account as a whole.
    phone_number_id text COLLATE "C",
    -- Of the number's route: a number may leave and come back.
    generation bigint,
    business_account_id text COLLATE "C",
    -- Items wait in a lane until they are applied or set aside.
    applied boolean NOT NULL DEFAULT false,
    body bytea NOT NULL,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

-- Items that nobody takes yet, and items that could not be applied. Each can be processed again.
CREATE TABLE callback_items (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    state text NOT NULL CHECK (state IN ('unhandled', 'dead')),
    reason text NOT NULL,
    -- The provider's name of the kind of change.
    field text NOT NULL,
    phone_number_id text COLLATE "C",
    generation bigint,
    business_account_id text COLLATE "C",
    -- An envelope with this item alone.
    body bytea NOT NULL,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);
