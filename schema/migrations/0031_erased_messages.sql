-- +goose Up

-- The provider's ids of messages that were erased with their contact, hashed, for as long as the network may repeat their
-- callbacks: a callback that comes again must not bring the contact back.
CREATE TABLE erased_messages (
    org_id uuid NOT NULL,
    hash bytea NOT NULL,
    erased_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, hash)
);

-- With org_id first, the planner would use this index to look up a hash, and read all rows of the organization.
CREATE INDEX erased_messages_oldest ON erased_messages (erased_at, org_id);
