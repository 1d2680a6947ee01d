-- +goose Up

-- Files of messages that are to be fetched from the provider. A row waits in the media lane of its
-- number, and is deleted when the file is stored or given up.
CREATE TABLE media_downloads (
    org_id uuid NOT NULL,
    -- The message.
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    -- The provider's id of the file, and the address that came with the message, which works for minutes.
    provider_media_id text NOT NULL,
    url text NOT NULL,
    sha256 bytea,
    mime_type text NOT NULL,
    filename text NOT NULL,
    -- The name of the file in the bucket, and in its public URL.
    key text NOT NULL,
    tries smallint NOT NULL DEFAULT 0,
    -- The body of message.received without what is known here; null for a message from the phone app.
    event bytea,
    -- When the event is recorded without the file; null once it was recorded.
    waits_until timestamptz,
    PRIMARY KEY (org_id, id)
);

CREATE INDEX media_downloads_waiting ON media_downloads (waits_until) WHERE waits_until IS NOT NULL;

-- Files in the bucket that are to be deleted. Each is deleted twice, because a download that was under
-- way may store it again.
CREATE TABLE media_deletions (
    org_id uuid NOT NULL,
    key text NOT NULL COLLATE "C",
    due_at timestamptz NOT NULL,
    deleted boolean NOT NULL DEFAULT false,
    PRIMARY KEY (org_id, key)
);

CREATE INDEX media_deletions_due ON media_deletions (due_at);
