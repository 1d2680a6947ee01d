-- +goose Up

-- What was said, written once. Only a merge of two contacts updates a row (conversation_id, contact_id),
-- and an edit by its author (content).
CREATE TABLE messages (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    conversation_id uuid NOT NULL,
    contact_id uuid NOT NULL,
    direction text NOT NULL CHECK (direction IN ('inbound', 'outbound')),
    type text NOT NULL,
    -- Who sent it: api, app (the phone), broadcast, contact.
    source text NOT NULL,
    source_id uuid,
    -- The API request that sent it.
    request_id uuid,
    client_reference text,
    -- The address that the caller gave: one of the two.
    to_number text,
    to_bsuid text,
    -- The provider's id of the message that this one answers, or that the reaction is on.
    reply_to text,
    reaction_target text,
    -- Of a template when it was accepted; null if it was not known then.
    category text,
    -- The object named by the type, as the caller or the provider wrote it.
    content json,
    -- The rendered template. Of other types the text is in the content.
    body text,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

CREATE INDEX messages_account ON messages (org_id, account_id, id);
CREATE INDEX messages_conversation ON messages (org_id, conversation_id, id);

-- What changes of a message: its status and the attempt under way. Updates add no index entries (HOT),
-- because no index holds a column that changes.
CREATE TABLE message_states (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    status text NOT NULL CHECK (status IN ('queued', 'pending', 'sent', 'delivered', 'read', 'failed')),
    error_code text,
    error_message text,
    provider_code integer,
    -- The failure is our own word, not the provider's: any proof that the provider took the message
    -- supersedes it.
    synthesized boolean NOT NULL DEFAULT false,
    provider_id text,
    -- Of a second copy, after an attempt whose result was unknown.
    second_provider_id text,
    -- One bit for each event of the message that was recorded.
    announced smallint NOT NULL DEFAULT 0,
    -- The number of the last attempt, and when it began. begun_at is null when its result is known.
    attempt smallint NOT NULL DEFAULT 0,
    begun_at timestamptz,
    -- Attempts that failed with a temporary error, and whether one with an unknown result was sent again.
    failures smallint NOT NULL DEFAULT 0,
    resent boolean NOT NULL DEFAULT false,
    sent_at timestamptz,
    delivered_at timestamptz,
    read_at timestamptz,
    played_at timestamptz,
    failed_at timestamptz,
    is_revoked boolean NOT NULL DEFAULT false,
    -- The first version of a message that was edited, and all versions.
    first_content json,
    edit_history json,
    media_state text CHECK (media_state IN ('pending', 'ready', 'failed')),
    media_type text,
    media_size bigint,
    media_key text,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);

-- Attempts that failed, were not called, or whose result was not known when they ended. The attempt under way, and the one that succeeded, are in
-- message_states.
CREATE TABLE send_attempts (
    org_id uuid NOT NULL,
    message_id uuid NOT NULL,
    attempt smallint NOT NULL,
    begun_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('not_called', 'refused', 'failed', 'unknown')),
    error_code text,
    provider_code integer,
    PRIMARY KEY (org_id, message_id, attempt)
) PARTITION BY RANGE (message_id);

-- The message of a provider's id. An inbound message is new only if this table takes its id.
CREATE TABLE provider_messages (
    org_id uuid NOT NULL,
    provider_id text NOT NULL COLLATE "C",
    message_id uuid NOT NULL,
    PRIMARY KEY (org_id, provider_id)
) PARTITION BY HASH (provider_id);

-- +goose StatementBegin
DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('CREATE TABLE provider_messages_%s PARTITION OF provider_messages FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Statuses whose message is not known yet. due_at is when their message is looked for next: 20 s after
-- they were parked, then after 15 minutes, when they are given up.
CREATE TABLE parked_statuses (
    org_id uuid NOT NULL,
    provider_id text NOT NULL COLLATE "C",
    -- Each status of a message waits once.
    status text NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    -- A body with this status alone.
    body bytea NOT NULL,
    due_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, provider_id, status)
);

CREATE INDEX parked_statuses_due ON parked_statuses (due_at);

-- Read receipts and typing bubbles that wait to be sent.
CREATE TABLE receipts (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    -- The provider's id of the inbound message.
    provider_id text NOT NULL,
    typing boolean NOT NULL,
    -- It was called, or is about to be: it is never called again.
    begun boolean NOT NULL DEFAULT false,
    PRIMARY KEY (org_id, id)
);

-- Contacts to whom the provider refused a message because too many came in a row. waits counts such
-- answers without an accepted message between them.
CREATE TABLE send_pairs (
    org_id uuid NOT NULL,
    account_id uuid NOT NULL,
    contact_id uuid NOT NULL,
    waits smallint NOT NULL,
    PRIMARY KEY (org_id, account_id, contact_id)
);

-- For each minute: the attempts that the provider accepted in it, and how many of them had a
-- callback. A resend waits longer while callbacks evidently do not arrive.
CREATE TABLE send_minutes (
    minute timestamptz PRIMARY KEY,
    accepted bigint NOT NULL,
    called_back bigint NOT NULL
);
