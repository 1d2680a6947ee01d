#!/usr/bin/env bash
# Measures the WAL of the events and webhook deliveries of messages, with the real tables (ADR 19): four
# events per message for one subscription, each delivered at the first attempt, in batches of 50.
#
# usage: scripts/event-costs.sh [FILLFACTOR]    of webhook_deliveries; default 100
#
# It needs psql and a PostgreSQL 15 that does nothing else, because WAL is counted for the whole server.
set -euo pipefail

export PGHOST=${PGHOST:-127.0.0.1} PGPORT=${PGPORT:-5432}
export PGOPTIONS='-c synchronous_commit=off -c client_min_messages=warning -c jit=off'
fillfactor=${1:-100}
name=parley_events_$$
root=$(cd "$(dirname "$0")/.." && pwd)

sql() { psql -Xq -v ON_ERROR_STOP=1 -P footer=off -d "$name" "$@"; }
trap 'psql -Xq -d postgres -c "DROP DATABASE IF EXISTS $name WITH (FORCE)"' EXIT
psql -Xq -d postgres -c "CREATE DATABASE $name"
cat "$root"/schema/migrations/*.sql | sql -o /dev/null
sql -v fillfactor="$fillfactor" <<'SQL'
CREATE TABLE measured (messages integer, step text, wal numeric);
CREATE FUNCTION uid(n bigint) RETURNS uuid IMMUTABLE LANGUAGE sql RETURN md5(n::text)::uuid;
CREATE TABLE events_p PARTITION OF events DEFAULT WITH (autovacuum_enabled = off);
CREATE TABLE webhook_deliveries_p PARTITION OF webhook_deliveries DEFAULT WITH (fillfactor = :fillfactor, autovacuum_enabled = off);
ALTER TABLE lane_rows SET (autovacuum_enabled = off);
CREATE PROCEDURE record(first bigint, last bigint) LANGUAGE plpgsql AS $$
DECLARE
    wal numeric[] := '{0, 0, 0, 0}'; w pg_lsn[]; org uuid; ids uuid[]; deliveries uuid[]; now timestamptz;
    body bytea := convert_to(repeat('{"id": "msg_1", "status": 1}, ', 30), 'UTF8');
BEGIN
FOR batch IN first..last LOOP FOR kind IN 1..4 LOOP
    now := date_trunc('milliseconds', clock_timestamp()); org := uid(batch % 5);
    SELECT array_agg(ulid(now)), array_agg(ulid(now)) INTO ids, deliveries FROM generate_series(1, 50);
    w[1] := pg_current_wal_insert_lsn();
    INSERT INTO events (org_id, id, key, type, audience, phone_number_id, body, contact_id, message_id)
    SELECT org, ids[j], 'msg_01KWABCDEFGHJKMNPQRSTVWXYZ:' || kind, 'message.status', 'public', '105550000000001', body,
        uid(i % 20000), ulid(now)
    FROM generate_series(1, 50) AS j, LATERAL (SELECT batch / 20 * 1000 + j * 20 + batch % 20 AS i) AS n;
    w[2] := pg_current_wal_insert_lsn();
    INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status, next_attempt_at)
    SELECT org, deliveries[j], org, ids[j], 'msg_' || left(replace(ids[j]::text, '-', ''), 26) || ':' || kind, 'message.status', 'pending', now
    FROM generate_series(1, 50) AS j;
    w[3] := pg_current_wal_insert_lsn();
    INSERT INTO lane_rows (lane_id, priority, due_at, id) SELECT org, 1, now, deliveries[j] FROM generate_series(1, 50) AS j;
    COMMIT;
    w[4] := pg_current_wal_insert_lsn();
    UPDATE webhook_deliveries SET status = 'succeeded', attempt_count = 1, last_attempt_at = now, next_attempt_at = NULL,
        response_status = 200, response_body_snippet = 'ok', duration_ms = 12 WHERE org_id = org AND id = ANY (deliveries);
    w[5] := pg_current_wal_insert_lsn();
    DELETE FROM lane_rows WHERE lane_id = org AND priority = 1 AND due_at = now AND id = ANY (deliveries);
    COMMIT;
    w[6] := pg_current_wal_insert_lsn();
    wal := ARRAY [wal[1] + (w[2] - w[1]), wal[2] + (w[3] - w[2]), wal[3] + (w[4] - w[3]) + (w[6] - w[5]), wal[4] + (w[5] - w[4])];
END LOOP; END LOOP;
INSERT INTO measured SELECT 50 * (last - first + 1), unnest('{events, deliveries, lane rows, results}'::text[]), unnest(wal);
END $$;
-- The first rows are for the planner, which reads whole tables as long as it knows of no rows.
CALL record(0, 39);
VACUUM ANALYZE events, webhook_deliveries, lane_rows;
TRUNCATE measured;
CHECKPOINT;
CALL record(40, 999);
VACUUM ANALYZE events, webhook_deliveries, lane_rows;
CHECKPOINT;
CALL record(1000, 1999);
SQL
sql <<'SQL'
SELECT step, round(sum(wal) / sum(messages)) AS "WAL B per message" FROM measured GROUP BY 1 ORDER BY 1;
SELECT relname, round(100.0 * n_tup_hot_upd / nullif(n_tup_upd, 0), 1) AS "HOT %", round(pg_total_relation_size(relid) / 100000.0) AS "disk B per message"
FROM pg_stat_user_tables WHERE relname IN ('events_p', 'webhook_deliveries_p', 'lane_rows');
SQL
