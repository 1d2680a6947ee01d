-- +goose Up

-- What happened, with the bytes that are posted: frozen when it happened, never encoded again.
CREATE TABLE events (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    -- What the specification prints as the event's id; not unique.
    key text NOT NULL,
    type text NOT NULL,
    -- public ones are delivered; internal ones are for the product's own eyes.
    audience text NOT NULL CHECK (audience IN ('public', 'internal')),
    phone_number_id text,
    -- Whose events must stay in order: a customer.
    subject_id uuid,
    body bytea NOT NULL,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);
