-- +goose Up

CREATE TABLE customers (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    team_id uuid NOT NULL,
    name text NOT NULL,
    name_key text NOT NULL COLLATE "C",
    email text,
    email_key text COLLATE "C",
    status text NOT NULL CHECK (status IN ('pending', 'active', 'suspended', 'archived')),
    -- The status before the customer was archived, which a restore sets again.
    previous_status text CHECK (previous_status IN ('pending', 'active', 'suspended')),
    -- The text of the caller: jsonb would reorder keys and rewrite numbers.
    metadata json,
    archived_at timestamptz,
    -- Grows with each change. The events of a customer are in this order.
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, team_id) REFERENCES teams,
    CHECK ((status = 'archived') = (archived_at IS NOT NULL)),
    CHECK ((status = 'archived') = (previous_status IS NOT NULL))
);

CREATE INDEX customers_name ON customers (org_id, name_key, id);
CREATE INDEX customers_email ON customers (org_id, email_key, id);
