-- +goose Up

-- A lane is a line of waiting rows with one drainer at a time: a business number, a
-- webhook subscription. Lanes and what waits in them are derived from the tables of the
-- domain, where the truth is: when an organization moves they are not copied but rebuilt.
CREATE TABLE lanes (
    lane_id uuid PRIMARY KEY,
    org_id uuid NOT NULL,
    kind text NOT NULL,
    -- Somebody will look at the rows: a job waits, a drainer works, or the lane is blocked.
    armed boolean NOT NULL DEFAULT false,
    -- The job that owns the lane. Whoever comes with another is fenced off.
    token bigint,
    -- Grows while the owner is alive; the watchdog looks at nothing else.
    progress bigint NOT NULL DEFAULT 0,
    blocked_until timestamptz,
    -- For when the earliest job is scheduled that will arm an idle lane with future rows.
    timer_at timestamptz,
    slow boolean NOT NULL DEFAULT false,
    concurrency smallint NOT NULL DEFAULT 0,
    latency_ms integer NOT NULL DEFAULT 0,
    -- Drainers that died here since the lane last went well, and the row that one was alone with.
    deaths smallint NOT NULL DEFAULT 0,
    suspect uuid
) WITH (fillfactor = 50);

CREATE INDEX lanes_org ON lanes (org_id);

-- The waiting rows: inserted, deleted, never updated.
CREATE TABLE lane_rows (
    lane_id uuid NOT NULL,
    priority smallint NOT NULL,
    due_at timestamptz NOT NULL,
    id uuid NOT NULL,
    key uuid,
    PRIMARY KEY (lane_id, priority, due_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Keys whose rows may not start now: one of them waits for its retry (holder), or the key
-- has a pace of its own.
CREATE TABLE lane_keys (
    lane_id uuid NOT NULL,
    key uuid NOT NULL,
    holder uuid,
    until timestamptz NOT NULL,
    PRIMARY KEY (lane_id, key)
);

-- Rows that failed in a way nobody foresaw, and those set aside after the third time.
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
