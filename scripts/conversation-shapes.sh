#!/usr/bin/env bash
# Compares indexes of the table of conversations (ADR 19): what a message writes, and what the lists
# of a number with 100000 conversations read. The shapes are:
#   now    the indexes of migration 0014
#   rare   without the status index, but a partial index of those that are pending
#   lean   as rare, and the unique key of the contact is in a table of its own, conversation_contacts
#   work   as lean, and one partial index for all that are unread or not resolved
#   split  what a message changes is in a table of its own, conversation_activity
#
# usage: scripts/conversation-shapes.sh [MESSAGES]    a multiple of 100; default 100000
#
# It needs psql and a PostgreSQL 15 that does nothing else, because WAL is counted for the whole server.
set -euo pipefail

export PGHOST=${PGHOST:-127.0.0.1} PGPORT=${PGPORT:-5432}
export PGOPTIONS='-c synchronous_commit=off -c client_min_messages=warning -c jit=off'
messages=${1:-100000}
name=parley_conversations_$$
root=$(cd "$(dirname "$0")/.." && pwd)
shapes='now rare lean work split'

sql() { psql -Xq -v ON_ERROR_STOP=1 -P footer=off -d "$name" "$@"; }
trap 'psql -Xq -d postgres -c "DROP DATABASE IF EXISTS $name WITH (FORCE)"' EXIT
psql -Xq -d postgres -c "CREATE DATABASE $name"
cat "$root"/schema/migrations/*.sql | sql -o /dev/null
sql <<'SQL'
CREATE TABLE measured (shape text, kind text, messages integer, wal numeric, ms numeric);
CREATE TABLE entries (shape text, kind text, entries numeric);
CREATE TABLE reads (shape text, list text, found integer, ms numeric, buffers integer);
CREATE FUNCTION uid(n bigint) RETURNS uuid IMMUTABLE LANGUAGE sql RETURN md5(n::text)::uuid;

-- Two numbers with 100000 conversations each. Of number 1, 60 % are resolved, 0.1 % pending, 43 % are
-- assigned to 20 agents and 3 % unread; agent 99 has the 10 oldest. Number 2 belongs to a team that
-- resolves all: 50 old ones are open, none is unread or assigned.
CREATE TABLE people AS
SELECT n, uid(0) AS org_id, ulid('2026-01-01'::timestamptz + n * interval '1 second') AS id, uid(1000000 + n) AS contact_id,
    uid(CASE WHEN n <= 100000 THEN 1 ELSE 2 END) AS account_id,
    CASE WHEN n > 100000 THEN CASE WHEN n <= 150000 AND n % 1000 = 0 THEN 'open' ELSE 'resolved' END
        WHEN h % 1000 = 0 THEN 'pending' WHEN h % 1000 <= 600 THEN 'resolved' ELSE 'open' END AS status,
    CASE WHEN n <= 10 THEN uid(99) WHEN n <= 100000 AND h % 7 < 3 THEN uid(50 + h % 20) END AS assignee_id,
    CASE WHEN n <= 100000 AND h % 33 = 1 THEN 1 ELSE 0 END AS unread_count,
    '2026-03-01'::timestamptz + n * interval '1 second' AS last_message_at, '2026-03-01'::timestamptz + n * interval '1 second' AS updated_at
FROM (SELECT n, abs(hashint4(n::integer)::bigint) AS h FROM generate_series(1, 200000) AS n) AS numbers ORDER BY hashint4(n::integer);
CREATE INDEX ON people (n);
SQL

columns='org_id, id, account_id, contact_id, status, assignee_id'
dynamic='unread_count, last_message_at, updated_at'
create() {
  local table
  echo "CREATE SCHEMA $1; SET search_path = $1, public;"
  if [[ $1 == split ]]; then
    cat <<SQL
CREATE TABLE conversations (org_id uuid NOT NULL, id uuid NOT NULL, account_id uuid NOT NULL, contact_id uuid NOT NULL, status text NOT NULL,
    assignee_id uuid, departure text, joined_into uuid, PRIMARY KEY (org_id, id), UNIQUE (org_id, contact_id));
CREATE INDEX conversations_status ON conversations (org_id, account_id, status, id) WHERE departure IS NULL AND status IS NOT NULL;
CREATE INDEX conversations_assignee ON conversations (org_id, account_id, assignee_id, id) WHERE departure IS NULL AND assignee_id IS NOT NULL;
CREATE TABLE conversation_activity (org_id uuid NOT NULL, id uuid NOT NULL, account_id uuid NOT NULL, unread_count integer NOT NULL,
    last_message_at timestamptz, last_inbound_at timestamptz, updated_at timestamptz NOT NULL, departure text,
    recent_at timestamptz NOT NULL GENERATED ALWAYS AS (coalesce(last_message_at, '-infinity')) STORED, PRIMARY KEY (org_id, id));
CREATE VIEW activity AS SELECT * FROM conversation_activity;
INSERT INTO conversations ($columns) SELECT $columns FROM people;
INSERT INTO conversation_activity (org_id, id, account_id, $dynamic) SELECT org_id, id, account_id, $dynamic FROM people;
SQL
    table=conversation_activity
  else
    cat <<SQL
CREATE TABLE conversations (LIKE public.conversations INCLUDING ALL EXCLUDING INDEXES) WITH (fillfactor = 80);
ALTER TABLE conversations ADD PRIMARY KEY (org_id, id);
$(if [[ $1 == lean || $1 == work ]]; then
      echo "CREATE TABLE conversation_contacts AS SELECT org_id, contact_id, id AS conversation_id FROM people;
        ALTER TABLE conversation_contacts ADD PRIMARY KEY (org_id, contact_id);"
    else echo "ALTER TABLE conversations ADD UNIQUE (org_id, contact_id);"; fi)
CREATE VIEW activity AS SELECT * FROM conversations;
INSERT INTO conversations ($columns, $dynamic) SELECT $columns, $dynamic FROM people;
SQL
    table=conversations
  fi
  cat <<SQL
CREATE INDEX conversations_recent ON $table (org_id, account_id, recent_at DESC, id DESC) WHERE departure IS NULL AND recent_at IS NOT NULL;
CREATE INDEX conversations_updated ON $table (org_id, account_id, updated_at DESC, id DESC) WHERE departure IS NULL AND updated_at IS NOT NULL;
SQL
  case $1 in
    now | rare | lean | work)
      echo "CREATE INDEX conversations_assignee ON conversations (org_id, account_id, assignee_id, recent_at DESC, id DESC)
          WHERE departure IS NULL AND assignee_id IS NOT NULL;" ;;&
    now)
      echo "CREATE INDEX conversations_status ON conversations (org_id, account_id, status, recent_at DESC, id DESC)
          WHERE departure IS NULL AND status IS NOT NULL;" ;;
    rare | lean | work)
      echo "CREATE INDEX conversations_pending ON conversations (org_id, account_id, recent_at DESC, id DESC)
          WHERE departure IS NULL AND status = 'pending';" ;;&
    work)
      echo "CREATE INDEX conversations_work ON conversations (org_id, account_id, recent_at DESC, id DESC)
          WHERE departure IS NULL AND (status <> 'resolved' OR unread_count > 0);" ;;
  esac
  if [[ $1 != work ]]; then
    echo "CREATE INDEX conversations_unread ON $table (org_id, account_id, recent_at DESC, id DESC) WHERE departure IS NULL AND unread_count > 0;"
  fi
  # A message sent sets the times. One received also opens the conversation and counts as unread.
  cat <<SQL
CREATE PROCEDURE run(shape text, kind text, batches integer) LANGUAGE plpgsql AS \$\$
DECLARE ids uuid[]; w pg_lsn; wal numeric := 0; c timestamptz; ms numeric := 0;
BEGIN
    FOR b IN 1..batches LOOP
        ids := ARRAY (SELECT p.id FROM (SELECT 1 + abs(hashint4(b * 50 + j)::bigint) % 100000 AS n FROM generate_series(1, 50) AS j) AS wanted
            JOIN people p USING (n) ORDER BY p.id);
        c := clock_timestamp(); w := pg_current_wal_insert_lsn();
        IF kind = 'sent' THEN
            UPDATE $table SET last_message_at = c, updated_at = c WHERE org_id = uid(0) AND id = ANY (ids);
        ELSE
            $(if [[ $1 == split ]]; then echo "UPDATE conversations SET status = 'open' WHERE org_id = uid(0) AND id = ANY (ids) AND status <> 'open';"; fi)
            UPDATE $table SET last_message_at = c, updated_at = c, last_inbound_at = c, unread_count = unread_count + 1
                $(if [[ $1 != split ]]; then echo ", status = 'open'"; fi) WHERE org_id = uid(0) AND id = ANY (ids);
        END IF;
        COMMIT;
        wal := wal + (pg_current_wal_insert_lsn() - w); ms := ms + extract(epoch FROM clock_timestamp() - c) * 1000;
    END LOOP;
    INSERT INTO measured VALUES (shape, kind, batches * 50, wal, ms);
END \$\$;
SQL
}

plans='SET plan_cache_mode = force_generic_plan;'

# write KIND: 4 turns of all shapes, each after a checkpoint and before a vacuum. An update that is not
# HOT writes an entry to each index whose predicate the row fulfils.
write() {
  local s turn
  for turn in 1 2 3 4; do
    for s in $shapes; do
      sql -c CHECKPOINT -c "$plans SET enable_seqscan = off; SET search_path = $s, public" -c "CALL run('$s', '$1', $((messages / 200)))"
      sql <<SQL
SELECT pg_current_wal_insert_lsn() AS w \gset
SELECT format('VACUUM (ANALYZE) %s;', oid::regclass) FROM pg_class WHERE relnamespace = '$s'::regnamespace AND relkind = 'r' \gexec
INSERT INTO measured VALUES ('$s', 'vacuum after $1', $messages / 4, pg_current_wal_insert_lsn() - :'w'::pg_lsn, 0);
SQL
    done
  done
  sql <<SQL
SELECT format('INSERT INTO entries SELECT %L, %L, (count(*) FILTER (WHERE %s))::numeric / count(*) FROM %s WHERE updated_at > %L;',
    relnamespace::regnamespace, '$1', coalesce(pg_get_expr(indpred, indrelid), 'true'), indrelid::regclass, timestamptz '2026-03-05')
FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
WHERE relnamespace::regnamespace::text = ANY (string_to_array('$shapes', ' '))
  AND relname = CASE relnamespace::regnamespace::text WHEN 'split' THEN 'conversation_activity' ELSE 'conversations' END \gexec
SELECT kind, shape, round(sum(wal) / sum(messages)) AS "WAL B per message", round(sum(ms) / sum(messages) * 1000) AS "us per message",
    (SELECT round(sum(entries), 2) FROM entries e WHERE e.shape = m.shape AND e.kind = '$1') AS entries
FROM measured m WHERE kind LIKE '%$1' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT schemaname AS shape, sum(pg_total_relation_size(relid)) / 200000 AS "disk B per conversation", round(100.0 * sum(n_tup_hot_upd) / sum(n_tup_upd), 1) AS "HOT %"
FROM pg_stat_user_tables WHERE schemaname = ANY (string_to_array('$shapes', ' ')) GROUP BY 1;
SQL
}

# walk SHAPE LIST ROWS FILTER [ORDER]: prepares a list as paging.Walk does. The numbers of
# rows are parameters, because the planner sorts all rows for a literal LIMIT of 10000.
walk() {
  local order=${5:-recent_at} own='id, account_id, unread_count, last_message_at, updated_at, recent_at' also=', contact_id, status, assignee_id' join=''
  local rows="FROM $1.activity a WHERE org_id = \$1 AND account_id = \$2 AND departure IS NULL AND $3 AND ($order, id) < (\$3, \$4)"
  if [[ $1 == split ]]; then
    join="JOIN LATERAL (SELECT contact_id, status, assignee_id FROM split.conversations WHERE org_id = \$1 AND id = a.id OFFSET 0) AS s ON true" also=''
  fi
  echo "PREPARE \"$1|$2\" (uuid, uuid, timestamptz, uuid, bigint, bigint) AS SELECT * FROM (
      SELECT *, ($4) IS TRUE AS matches, row_number() OVER (ORDER BY $order DESC, id DESC) = \$5 AS last_read
      FROM (SELECT $own$also $rows ORDER BY $order DESC, id DESC LIMIT \$5) AS a $join) AS walked
    WHERE matches OR last_read ORDER BY $order DESC, id DESC LIMIT \$6;"
}

# The first condition of each list selects its index. gathered: fewer than 1000 ids are read and sorted.
lists() {
  local s inbox='recent_at <= $3' busy='assignee_id = uid(53)' few='assignee_id = uid(99)'
  local work="(status <> 'resolved' OR unread_count > 0)"
  local gathered='id = ANY (ARRAY (SELECT id FROM split.conversations WHERE org_id = $1 AND account_id = $2 AND departure IS NULL AND'
  for s in $shapes; do
    walk "$s" '1 all' "$inbox" true
    walk "$s" '5 read' "$inbox" 'unread_count = 0'
    walk "$s" '8 updated since, 50' "updated_at > (SELECT updated_at FROM $s.activity WHERE org_id = \$1 AND account_id = \$2 AND departure IS NULL
        AND updated_at IS NOT NULL ORDER BY updated_at DESC OFFSET 50 LIMIT 1)" true updated_at
    walk "$s" '9 updated since, all' "updated_at > '2026-03-01'" true updated_at
    case $s in
      now)
        walk now '2 open' "status = 'open'" true
        walk now '2 team, open' "status = 'open'" true
        walk now '3 pending' "status = 'pending'" true ;;
      split)
        walk split '2 open' "$inbox" "status = 'open'"
        walk split '2 team, open' "$gathered status = 'open'))" true
        walk split '3 pending' "$gathered status = 'pending'))" true
        walk split '6 assignee of many' "$inbox" "$busy"
        walk split '7 assignee of 10 old' "$gathered $few))" true ;;
      rare | lean)
        walk "$s" '2 open' "$inbox" "status = 'open'"
        walk "$s" '2 team, open' "$inbox" "status = 'open'" ;;
      work)
        walk work '2 open' "$work" "status = 'open'"
        walk work '2 team, open' "$work" "status = 'open'"
        walk work '4 unread' "$work" 'unread_count > 0'
        walk work '4 team, unread' "$work" 'unread_count > 0' ;;
    esac
    if [[ $s == rare || $s == lean || $s == work ]]; then walk "$s" '3 pending' "status = 'pending'" true; fi
    if [[ $s != work ]]; then walk "$s" '4 unread' 'unread_count > 0' true && walk "$s" '4 team, unread' 'unread_count > 0' true; fi
    if [[ $s != split ]]; then walk "$s" '6 assignee of many' "$busy" true && walk "$s" '7 assignee of 10 old' "$few" true; fi
  done
}

read_lists() {
  {
    echo "$plans"
    lists
    cat <<'SQL'
DO $$
DECLARE p record; plan json;
BEGIN
    FOR run IN 1..200 LOOP
        FOR p IN SELECT name, split_part(name, '|', 1) AS shape, split_part(name, '|', 2) AS list FROM pg_prepared_statements ORDER BY random() LOOP
            EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) EXECUTE %I (%L, %L, %L, %L, 10000, 26)', p.name, uid(0), uid(CASE WHEN p.list LIKE '%team%' THEN 2 ELSE 1 END), 'infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff') INTO plan;
            INSERT INTO reads SELECT p.shape, p.list, (plan->0->'Plan'->>'Actual Rows')::integer, (plan->0->>'Execution Time')::numeric,
                (plan->0->'Plan'->>'Shared Hit Blocks')::integer + (plan->0->'Plan'->>'Shared Read Blocks')::integer;
        END LOOP;
    END LOOP;
END $$;
SELECT list, shape, min(found) AS rows, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)::numeric, 2) AS "ms, median",
    percentile_disc(0.5) WITHIN GROUP (ORDER BY buffers) AS "buffers, median" FROM reads GROUP BY 1, 2 ORDER BY 1, array_position('{now, rare, lean, work, split}', shape);
SQL
  } | sql
}

for shape in $shapes; do create "$shape" | sql; done
sql -c "VACUUM ANALYZE"
write sent
read_lists
write received
