-- +goose Up

-- One row for each request of a known key; id is the request id. No body, no query string.
CREATE TABLE api_log (
    org_id uuid NOT NULL,
    id uuid NOT NULL,
    key_id uuid NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    route text NOT NULL,
    status smallint NOT NULL,
    code text NOT NULL,
    duration_us bigint NOT NULL,
    ip inet,
    user_agent text NOT NULL,
    replayed boolean NOT NULL,
    PRIMARY KEY (org_id, id)
) PARTITION BY RANGE (id);
