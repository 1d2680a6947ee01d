-- +goose Up

-- Files that an organization uploaded in order to send them.
CREATE TABLE library_files (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    team_id uuid NOT NULL,
    -- image, document, video or audio.
    type text NOT NULL,
    mime_type text NOT NULL,
    size bigint NOT NULL,
    filename text,
    -- The name of the file in the bucket, and in its public URL.
    key text NOT NULL COLLATE "C",
    PRIMARY KEY (org_id, id),
    -- An erased message does not take a library file along.
    UNIQUE (org_id, key),
    FOREIGN KEY (org_id, team_id) REFERENCES teams
);

-- Library files that a number uploaded to the provider, which keeps them for 30 days. A row outlives its
-- file, because messages that were accepted before the file was deleted still go out.
CREATE TABLE media_uploads (
    org_id uuid NOT NULL,
    account_id uuid NOT NULL,
    file_id uuid NOT NULL,
    provider_media_id text NOT NULL,
    uploaded_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, account_id, file_id)
);

-- Messages that wait until their library files are uploaded. Such a message is in the media lane of its number,
-- and in no other lane.
CREATE TABLE media_waiting (
    org_id uuid NOT NULL,
    -- The message.
    id uuid NOT NULL,
    account_id uuid NOT NULL,
    -- The files with all that an upload needs.
    files json NOT NULL,
    -- The class of the message in the lane of sends.
    priority smallint NOT NULL,
    tries smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, id)
);
