-- +goose Up

CREATE TABLE webhook_subscriptions (
    org_id uuid NOT NULL REFERENCES organizations,
    id uuid NOT NULL,
    url text NOT NULL,
    description text,
    events text[] NOT NULL,
    phone_number_ids text[],
    status text NOT NULL CHECK (status IN ('active', 'paused', 'disabled')),
    disabled_reason text CHECK ((status = 'disabled') = (disabled_reason IS NOT NULL)),
    -- Deliveries before this id were discarded when the subscription was resumed.
    backlog_from uuid NOT NULL,
    -- Incremented with each change of URL, status and secrets, so that senders read them again.
    version integer NOT NULL,
    consecutive_failures integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    -- How many times in a row the breaker opened, and until when it is open.
    breaker_step smallint NOT NULL DEFAULT 0,
    breaker_until timestamptz,
    -- The last warning that the subscription is about to be disabled, in percent of the way.
    warned smallint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, id)
) WITH (fillfactor = 50);

CREATE TABLE webhook_secrets (
    org_id uuid NOT NULL,
    subscription_id uuid NOT NULL,
    id uuid NOT NULL,
    sealed bytea NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (org_id, subscription_id, id),
    FOREIGN KEY (org_id, subscription_id) REFERENCES webhook_subscriptions ON DELETE CASCADE
);

-- One event for one subscription. domain/events inserts the deliveries of an event with it;
-- domain/webhooks owns all else. A delivery that succeeds is written twice, the second time in
-- place: no index holds a column that changes then.
CREATE TABLE webhook_deliveries (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    subscription_id uuid NOT NULL,
    event_id uuid NOT NULL,
    event_key text NOT NULL COLLATE "C",
    event_type text NOT NULL,
    subject_id uuid,
    status text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed', 'dead')),
    -- failed or dead
    troubled boolean NOT NULL DEFAULT false,
    attempt_count smallint NOT NULL DEFAULT 0,
    last_attempt_at timestamptz,
    next_attempt_at timestamptz,
    response_status smallint,
    response_body_snippet text,
    duration_ms integer,
    error_code text,
    replayed_from uuid,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

CREATE INDEX webhook_deliveries_subscription ON webhook_deliveries (org_id, subscription_id, id);
CREATE INDEX webhook_deliveries_event ON webhook_deliveries (org_id, event_key, id);
CREATE INDEX webhook_deliveries_troubled ON webhook_deliveries (org_id, id) WHERE troubled;

-- The attempts of deliveries that did not succeed at the first attempt; the last attempt also
-- stands in the delivery. The time of an attempt is in its id.
CREATE TABLE webhook_attempts (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    attempt smallint NOT NULL,
    response_status smallint,
    response_body_snippet text,
    duration_ms integer NOT NULL,
    error_code text,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

CREATE INDEX webhook_attempts_delivery ON webhook_attempts (org_id, delivery_id, attempt);

-- Bulk replays under way: a job makes the deliveries, 50 at a time.
CREATE TABLE webhook_replays (
    org_id uuid NOT NULL REFERENCES organizations,
    id uuid NOT NULL,
    subscription_id uuid,
    event_type text,
    -- Dead deliveries from next_id to before until_id are replayed; next_id moves on.
    next_id uuid NOT NULL,
    until_id uuid NOT NULL,
    PRIMARY KEY (org_id, id)
);
