-- +goose Up

-- An id minted by the database, for rows whose number only a statement knows: the time
-- in front, 80 random bits behind.
CREATE FUNCTION ulid(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (
        SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || right(r, 12) || left(r, 8))::uuid
        FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS r) random
    );

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
