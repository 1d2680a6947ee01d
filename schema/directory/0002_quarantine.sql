-- +goose Up

-- What the provider pushed and belongs to nobody here, or could not be read at all. It was
-- answered with 200, so nobody will send it again.
CREATE TABLE directory.quarantine (
    id uuid PRIMARY KEY,
    reason text NOT NULL,
    phone_number_id text,
    business_account_id text,
    body bytea NOT NULL
);
