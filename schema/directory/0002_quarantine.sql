-- +goose Up

-- Callbacks of no organization, and bodies that could not be parsed. They were answered with 200,
-- so the provider does not send them again.
CREATE TABLE directory.quarantine (
    id uuid PRIMARY KEY,
    reason text NOT NULL,
    phone_number_id text,
    business_account_id text,
    body bytea NOT NULL
);
