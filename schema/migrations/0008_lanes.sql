-- +goose Up

-- A lane is a queue of rows with one drainer at a time: a business number, a webhook subscription.
CREATE TABLE lanes (
    lane_id uuid PRIMARY KEY,
    org_id uuid NOT NULL,
    kind text NOT NULL,
    -- A job waits, a drainer works, or the lane is blocked: adding a row needs no new job.
    armed boolean NOT NULL DEFAULT false,
    -- The fencing token: the id of the job that owns the lane.
    token bigint,
    -- Grows while the owner is alive; the watchdog looks at nothing else.
    progress bigint NOT NULL DEFAULT 0,
    blocked_until timestamptz,
    -- When the next job is scheduled that will arm the idle lane for a row due later.
    timer_at timestamptz,
    slow boolean NOT NULL DEFAULT false,
    concurrency smallint NOT NULL DEFAULT 0,
    latency_ms integer NOT NULL DEFAULT 0,
    -- Drainers that died since the lane last went well, and the row that one worked alone.
    deaths smallint NOT NULL DEFAULT 0,
    suspect uuid
) WITH (fillfactor = 50);

CREATE INDEX lanes_org ON lanes (org_id);

-- The waiting rows. A row behind a key that is held for a retry is parked when a take first meets
-- it: its due time becomes infinite, so that takes do not read it again. The key gets its oldest
-- parked row back when it is freed.
CREATE TABLE lane_rows (
    lane_id uuid NOT NULL,
    priority smallint NOT NULL,
    due_at timestamptz NOT NULL,
    id uuid NOT NULL,
    key uuid,
    parked_from timestamptz,
    PRIMARY KEY (lane_id, priority, due_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX lane_rows_parked ON lane_rows (lane_id, key, priority, parked_from, id) WHERE due_at = 'infinity';

-- Keys whose rows may not start now: one of them waits for its retry (holder), or the key
-- has a pace of its own.
CREATE TABLE lane_keys (
    lane_id uuid NOT NULL,
    key uuid NOT NULL,
    holder uuid,
    until timestamptz NOT NULL,
    PRIMARY KEY (lane_id, key)
);

-- Rows with faults that their kind did not foresee, and those set aside after the third.
CREATE TABLE lane_faults (
    lane_id uuid NOT NULL,
    id uuid NOT NULL,
    key uuid,
    priority smallint NOT NULL,
    class text NOT NULL,
    times smallint NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL,
    aside boolean NOT NULL,
    PRIMARY KEY (lane_id, id)
);

-- What waits in the lanes of an organization while it moves to another database: written when it is
-- frozen, deleted when it is open again.
CREATE TABLE lanes_moving (
    org_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    kind text NOT NULL,
    blocked_until timestamptz,
    PRIMARY KEY (org_id, lane_id)
);

CREATE TABLE lane_rows_moving (
    org_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    priority smallint NOT NULL,
    due_at timestamptz NOT NULL,
    id uuid NOT NULL,
    key uuid,
    parked_from timestamptz,
    PRIMARY KEY (org_id, lane_id, priority, due_at, id)
);

CREATE TABLE lane_keys_moving (
    org_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    key uuid NOT NULL,
    holder uuid,
    until timestamptz NOT NULL,
    PRIMARY KEY (org_id, lane_id, key)
);

CREATE TABLE lane_faults_moving (
    org_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    id uuid NOT NULL,
    key uuid,
    priority smallint NOT NULL,
    class text NOT NULL,
    times smallint NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL,
    aside boolean NOT NULL,
    PRIMARY KEY (org_id, lane_id, id)
);
