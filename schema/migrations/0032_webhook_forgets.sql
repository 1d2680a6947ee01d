-- +goose Up

-- Deliveries of a subscription before before_id that will not be sent: a job deletes them, or makes them dead if they were
-- discarded, and then deletes the row. The row moves with the organization, the job does not.
CREATE TABLE webhook_forgets (
    org_id uuid NOT NULL REFERENCES organizations,
    subscription_id uuid NOT NULL,
    before_id uuid NOT NULL,
    discard boolean NOT NULL,
    PRIMARY KEY (org_id, subscription_id, before_id)
);
