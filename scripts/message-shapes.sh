#!/usr/bin/env bash
# Compares shapes of the tables of messages (ADR 19). Each message is taken through its whole life:
# it is accepted (10 messages per commit), begun, settled, and gets the statuses sent, delivered and
# read (batches of 50 of one account, one commit each). The shapes are:
#   a   one wide row per message
#   b1  content written once, beside a narrow row of what changes, with the attempt as its columns
#   b2  as b1, but with a row in send_attempts for every message
#   c   one wide row, beside a dispatch row that is inserted at accept and deleted at settlement
#
# usage: scripts/message-shapes.sh [MESSAGES]    a multiple of 1000; default 1000000
#
# It needs psql and a PostgreSQL 15 that does nothing else, because WAL is counted for the whole
# server. SHAPES="a:70 b1:40" runs these shapes with these fillfactors and skips the search for the
# best, which takes TRIAL messages (default 20000) of each. Commits do not wait for fsync, because all
# shapes commit equally often.
set -euo pipefail

export PGHOST=${PGHOST:-127.0.0.1} PGPORT=${PGPORT:-5432}
export PGOPTIONS='-c synchronous_commit=off -c client_min_messages=warning -c jit=off'
messages=${1:-1000000}
name=parley_shapes_$$

sql() { psql -Xq -v ON_ERROR_STOP=1 -d "$name" "$@"; }
trap 'psql -Xq -d postgres -c "DROP DATABASE IF EXISTS $name WITH (FORCE)"' EXIT
psql -Xq -d postgres -c "CREATE DATABASE $name"

sql <<'SQL'
CREATE TABLE measured (shape text, messages integer, step text, wal numeric, ms numeric);
CREATE TABLE shapes (shape text, statements numeric(9, 2));
CREATE TABLE reads (shape text, kind text, ms numeric, buffers integer);
CREATE VIEW summary AS
WITH tables AS (
    SELECT schemaname AS shape, sum(pg_total_relation_size(relid)) AS bytes, sum(n_tup_upd) AS updates, sum(n_tup_hot_upd) AS hot,
        sum((n_tup_ins + n_tup_upd - n_tup_hot_upd) * (SELECT count(*) FROM pg_index WHERE indrelid = relid)) AS entries
    FROM pg_stat_user_tables GROUP BY 1)
SELECT shape, round(sum(wal) / messages) AS "WAL B", round(bytes / messages) AS "disk B", round(entries / messages, 2) AS entries,
    round(100 * hot / updates, 1) AS "HOT %", statements, round(sum(ms) / messages, 3) AS "ms",
    string_agg(format('%s %s/%s', step, round(wal / messages), round(1000 * ms / messages)), ', ' ORDER BY n) AS "WAL B / us per step"
FROM (SELECT shape, messages, step, sum(wal) AS wal, sum(ms) AS ms,
        array_position('{accept, begin, settle, provider ids, sent, delivered, read, vacuum}', step) AS n FROM measured GROUP BY 1, 2, 3) AS m
JOIN tables USING (shape) JOIN shapes USING (shape) GROUP BY shape, statements, messages, bytes, updates, hot, entries ORDER BY shape;
-- A uuid from a number, the same each time.
CREATE FUNCTION uid(n bigint) RETURNS uuid IMMUTABLE LANGUAGE sql RETURN md5(n::text)::uuid;
-- The id of message i: 48 bits of milliseconds, then random bits. Half of all are before the month's end.
CREATE FUNCTION mid(i bigint, total bigint) RETURNS uuid IMMUTABLE LANGUAGE sql RETURN
    (lpad(to_hex(1775001600000 - total / 2 + i), 12, '0') || left(md5(i::text), 20))::uuid;
-- 20 accounts of 5 organizations, 20000 conversations.
CREATE FUNCTION org_of(account bigint) RETURNS uuid IMMUTABLE LANGUAGE sql RETURN uid(account % 5);
CREATE FUNCTION conversation_of(i bigint) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN
    100000 + i % 20 * 1000 + abs(hashint8(i) % 1000);
-- 62 characters that begin with the contact's number, as the provider's ids do.
CREATE FUNCTION wamid(i bigint) RETURNS text IMMUTABLE LANGUAGE sql RETURN
    'wamid.HBgL' || encode(convert_to((15550000000 + conversation_of(i))::text, 'UTF8'), 'base64') || 'VAgARGBI'
    || encode(convert_to(upper(left(md5(i::text), 18)), 'UTF8'), 'base64') || 'AA==';
SQL

fixed='account_id uuid NOT NULL, conversation_id uuid NOT NULL, contact_id uuid NOT NULL, direction text NOT NULL,
    type text NOT NULL, source text NOT NULL, source_id uuid, request_id uuid, client_reference text, to_number text,
    to_bsuid text, reply_to text, reaction_target text, content json NOT NULL, body text, category text,
    priority smallint NOT NULL'
changing='status text NOT NULL, seen_statuses smallint NOT NULL, is_revoked boolean NOT NULL, attempt smallint,
    begun_at timestamptz, next_attempt_at timestamptz, sent_at timestamptz, delivered_at timestamptz, read_at timestamptz,
    played_at timestamptz, failed_at timestamptz, error_code text, error_message text, provider_code integer,
    provider_id text, second_provider_id text, first_content json, edit_history json, media_state text,
    media_type text, media_size bigint, media_key text'
fixed_names='org_id, id, account_id, conversation_id, contact_id, direction, type, source, request_id, client_reference,
    to_number, content, body, category, priority'
# Every fifth message is a template, whose text is in body.
fixed_values="org_of(i % 20), mid(i, total), uid(100 + i % 20), uid(conversation_of(i)), uid(1000000 + conversation_of(i)), 'outbound',
    CASE WHEN i % 5 = 0 THEN 'template' ELSE 'text' END, 'api', uid(2000000 + i), CASE WHEN i % 2 = 0 THEN 'order-' || i END,
    (15550000000 + conversation_of(i))::text, content, CASE WHEN i % 5 = 0 THEN repeat('a word ', 17) END,
    CASE WHEN i % 5 = 0 THEN 'utility' END, 1"

# partitioned TABLE COLUMNS KEY FILLFACTOR [ID]: a table with the partitions of two months.
partitioned() {
  local half=019d4657-0000-0000-0000-000000000000 part
  echo "CREATE TABLE $1 ($2, PRIMARY KEY ($3)) PARTITION BY RANGE (${5:-id});"
  for part in "1 FOR VALUES FROM (MINVALUE) TO ('$half')" "2 FOR VALUES FROM ('$half') TO (MAXVALUE)"; do
    echo "CREATE TABLE $1_p${part%% *} PARTITION OF $1 ${part#* } WITH (fillfactor = $4, autovacuum_enabled = off);"
  done
}

# create SHAPE FILLFACTOR: the tables, and a procedure that runs chunks of 1000 messages.
create() {
  local shape=$1 ff=$2 states=messages accept begin settle='' key='org_id uuid NOT NULL, id uuid NOT NULL' q
  # No join: a generic plan that was made while a partition was empty joins by org_id alone. The range
  # of ids prunes partitions, which ANY of a parameter does not.
  local at='WHERE s.org_id = org AND s.id = ANY (ids) AND s.id BETWEEN ids[1] AND ids[cardinality(ids)]'
  echo "CREATE SCHEMA ${shape}_$ff; SET search_path = ${shape}_$ff, public;"
  accept="INSERT INTO messages ($fixed_names, status, seen_statuses, is_revoked) VALUES ($fixed_values, 'queued', 0, false);"
  begin="UPDATE messages s SET status = 'pending', attempt = 1, begun_at = now $at;"
  case $shape in
    a) partitioned messages "$key, $fixed, $changing" 'org_id, id' "$ff" ;;
    b?)
      states=message_states
      partitioned messages "$key, $fixed" 'org_id, id' 100
      partitioned message_states "$key, $changing" 'org_id, id' "$ff"
      accept="INSERT INTO messages ($fixed_names) VALUES ($fixed_values);
          INSERT INTO message_states (org_id, id, status, seen_statuses, is_revoked) VALUES (org_of(i % 20), mid(i, total), 'queued', 0, false);"
      begin=${begin/messages/message_states}
      ;;
    c)
      partitioned messages "$key, $fixed, $changing" 'org_id, id' "$ff"
      echo "CREATE TABLE dispatch ($key, attempt smallint, begun_at timestamptz, next_attempt_at timestamptz, PRIMARY KEY (org_id, id))
          WITH (fillfactor = 50, autovacuum_enabled = off);"
      accept+="INSERT INTO dispatch (org_id, id) VALUES (org_of(i % 20), mid(i, total));"
      begin="UPDATE dispatch s SET attempt = 1, begun_at = now $at;"
      settle="DELETE FROM dispatch s $at;"
      ;;
  esac
  if [[ $shape == b2 ]]; then
    partitioned send_attempts 'org_id uuid NOT NULL, message_id uuid NOT NULL, attempt smallint NOT NULL, begun_at timestamptz NOT NULL,
        ended_at timestamptz, outcome text, error_code text, error_message text' 'org_id, message_id, attempt' "$ff" message_id
    begin="UPDATE message_states s SET status = 'pending' $at;
        INSERT INTO send_attempts (org_id, message_id, attempt, begun_at) SELECT org, id, 1, now FROM unnest(ids) AS g (id);"
    settle="UPDATE send_attempts s SET ended_at = now, outcome = 'accepted' ${at//s.id/s.message_id} AND s.attempt = 1;"
  fi
  echo "CREATE INDEX ON messages (org_id, account_id, id); CREATE INDEX ON messages (org_id, conversation_id, id);
    CREATE TABLE provider_messages (org_id uuid NOT NULL, provider_id text NOT NULL COLLATE \"C\", message_id uuid NOT NULL,
        PRIMARY KEY (org_id, provider_id)) PARTITION BY HASH (provider_id);"
  for q in {0..15}; do
    echo "CREATE TABLE provider_messages_$q PARTITION OF provider_messages FOR VALUES WITH (MODULUS 16, REMAINDER $q)
        WITH (autovacuum_enabled = off);"
  done
  echo "INSERT INTO shapes SELECT '${shape}_$ff', length(regexp_replace(\$q\$$accept\$q\$, '[^;]', '', 'g'))
      + (length(regexp_replace(\$q\$$begin$settle\$q\$, '[^;]', '', 'g')) + 5) / 50.0;"
  cat <<SQL
-- Takes the chunks first to last through their lives. Delivered comes 2 chunks later. A quarter of a
-- chunk is read after one slice, a quarter after two, three and four.
CREATE PROCEDURE run(shape text, first integer, last integer, total bigint, slice integer) LANGUAGE plpgsql AS \$\$
DECLARE
    steps text[] := '{accept, begin, settle, sent, delivered, read, provider ids}';
    wal numeric[] := '{0, 0, 0, 0, 0, 0, 0}'; ms numeric[] := wal; step integer; account integer; chunk bigint; i bigint;
    org uuid; ids uuid[]; wamids text[]; now timestamptz; c timestamptz; w pg_lsn;
    content json := json_build_object('body', repeat('A message of a few lines. ', 9), 'preview_url', false);
BEGIN
FOR k IN first..last LOOP FOR step IN 1..6 LOOP
    chunk := k - CASE step WHEN 5 THEN 2 ELSE 0 END;
    CONTINUE WHEN step < 6 AND chunk NOT BETWEEN 0 AND total / 1000 - 1;
    IF step = 1 THEN
        c := clock_timestamp(); w := pg_current_wal_insert_lsn();
        FOR i IN chunk * 1000..chunk * 1000 + 999 LOOP
            $accept
            IF i % 10 = 9 THEN COMMIT; END IF;
        END LOOP;
        wal[1] := wal[1] + (pg_current_wal_insert_lsn() - w); ms[1] := ms[1] + extract(epoch FROM clock_timestamp() - c) * 1000;
        CONTINUE;
    END IF;
    FOR account IN 0..19 LOOP
        IF step < 6 THEN
            SELECT array_agg(mid(j, total)), array_agg(wamid(j)) INTO ids, wamids
            FROM generate_series(chunk * 1000 + account, chunk * 1000 + 999, 20) AS j;
        ELSE
            SELECT array_agg(mid(j, total) ORDER BY j) INTO ids
            FROM generate_series(1, 4) AS q, generate_series((k - q * slice) * 1000 + account, (k - q * slice) * 1000 + 999, 20) AS j
            WHERE j BETWEEN 0 AND total - 1 AND abs(hashint8(j) % 4) = q - 1;
            CONTINUE WHEN ids IS NULL;
        END IF;
        org := org_of(account); now := date_trunc('milliseconds', clock_timestamp());
        c := clock_timestamp(); w := pg_current_wal_insert_lsn();
        IF step = 2 THEN
            $begin
        ELSIF step = 3 THEN
            UPDATE $states s SET status = 'sent', sent_at = now, provider_id = wamids[array_position(ids, s.id)]
            $at;
            $settle
            wal[3] := wal[3] + (pg_current_wal_insert_lsn() - w); ms[3] := ms[3] + extract(epoch FROM clock_timestamp() - c) * 1000;
            c := clock_timestamp(); w := pg_current_wal_insert_lsn();
            INSERT INTO provider_messages SELECT org, wamid, id FROM unnest(ids, wamids) AS g (id, wamid) ON CONFLICT DO NOTHING;
        ELSE
            UPDATE $states s SET status = steps[step], seen_statuses = seen_statuses | (1 << step)::smallint,
                delivered_at = CASE WHEN step = 5 THEN now ELSE delivered_at END, read_at = CASE WHEN step = 6 THEN now ELSE read_at END
            $at;
        END IF;
        COMMIT;
        i := CASE step WHEN 3 THEN 7 ELSE step END;
        wal[i] := wal[i] + (pg_current_wal_insert_lsn() - w); ms[i] := ms[i] + extract(epoch FROM clock_timestamp() - c) * 1000;
    END LOOP;
END LOOP; END LOOP;
INSERT INTO measured SELECT shape, total, steps[j], wal[j], ms[j] FROM generate_series(1, 7) AS j;
END \$\$;
SQL
}

# The application's transactions use generic plans. Sequential scans are off, because the tables are empty at first.
plans='SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;'

# logged SHAPE MESSAGES STEP SQL: runs a statement and stores its WAL.
logged() {
  sql <<SQL
SELECT pg_current_wal_insert_lsn() AS w, clock_timestamp() AS c \gset
$4
INSERT INTO measured SELECT '$1', $2, '$3', pg_current_wal_insert_lsn() - :'w'::pg_lsn, extract(epoch FROM clock_timestamp() - :'c') * 1000;
SQL
}

# compare MESSAGES SHAPE:FILLFACTOR...: four slices of each shape, by turns. A slice begins with a
# checkpoint, so that full page images count, and ends with a vacuum, whose WAL counts too. Messages
# are read in the four slices after their own: people read after one checkpoint or many.
compare() {
  local total=$1 chunks=$(($1 / 1000)) slice first last one s; shift
  slice=$(((chunks + 3) / 4))
  sql -c "TRUNCATE measured, shapes"
  for one; do sql -c "DROP SCHEMA IF EXISTS ${one/:/_} CASCADE" && create "${one%:*}" "${one#*:}" | sql; done
  for ((first = 0; first < chunks + 4 * slice; first += slice)); do
    last=$((first + slice - 1))
    for one; do
      s=${one/:/_}
      sql -c "CHECKPOINT" -c "$plans SET search_path = $s, public" -c "CALL run('$s', $first, $last, $total, $slice)"
      logged "$s" "$total" vacuum "SELECT format('VACUUM (ANALYZE) %s;', oid::regclass) FROM pg_class WHERE relnamespace = '$s'::regnamespace AND relkind = 'r' \\gexec"
    done
  done
  sql -P footer=off -c "SELECT * FROM summary"
}


# read_pages SHAPE...: 200 pages of 100 messages of an account, and 200 single messages, by turns.
read_pages() {
  local one rows key='WHERE org_id = $1 AND id = $3' page
  {
    echo "$plans SET enable_seqscan = on; SET enable_bitmapscan = on;"
    for one; do
      rows="FROM $one.messages WHERE org_id = \$1 AND account_id = \$2 AND id < \$3 ORDER BY id DESC LIMIT 100"
      page="SELECT * $rows"
      if [[ $one == b* ]]; then
        page="SELECT * FROM (SELECT * $rows) AS m JOIN LATERAL (SELECT * FROM $one.message_states s WHERE s.org_id = \$1 AND s.id = m.id OFFSET 0) AS s
            ON true ORDER BY m.id DESC"
        echo "PREPARE \"page, join|$one\" (uuid, uuid, uuid) AS SELECT * FROM (SELECT * $rows) AS m
            JOIN $one.message_states s ON s.org_id = \$1 AND s.id = m.id ORDER BY m.id DESC;
          PREPARE \"one|$one\" (uuid, uuid, uuid) AS SELECT * FROM (SELECT * FROM $one.messages $key) AS m, (SELECT * FROM $one.message_states $key) AS s;"
      else
        echo "PREPARE \"one|$one\" (uuid, uuid, uuid) AS SELECT * FROM $one.messages $key;"
      fi
      echo "PREPARE \"page|$one\" (uuid, uuid, uuid) AS $page;"
    done
    cat <<SQL
DO \$\$
DECLARE p record; plan json; n bigint;
BEGIN
    FOR run IN 1..200 LOOP
        -- One of the newest tenth of the messages.
        n := $messages * (0.9 + 0.1 * random());
        FOR p IN SELECT name, split_part(name, '|', 1) AS kind, split_part(name, '|', 2) AS shape FROM pg_prepared_statements ORDER BY random() LOOP
            EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) EXECUTE %I (%L, %L, %L)',
                p.name, org_of(n % 20), uid(100 + n % 20), mid(n, $messages)) INTO plan;
            INSERT INTO reads SELECT p.shape, p.kind, (plan->0->>'Execution Time')::numeric,
                (plan->0->'Plan'->>'Shared Hit Blocks')::integer + (plan->0->'Plan'->>'Shared Read Blocks')::integer;
        END LOOP;
    END LOOP;
END \$\$;
SELECT kind, shape, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)::numeric, 3) AS "ms, median",
    percentile_disc(0.5) WITHIN GROUP (ORDER BY buffers) AS "buffers, median" FROM reads GROUP BY 1, 2 ORDER BY 1, 2;
SQL
  } | sql -P footer=off
}

# The best fillfactor of a shape has the least WAL and disk together; b2 takes that of b1.
if [[ -z ${SHAPES:-} ]]; then
  compare "${TRIAL:-20000}" a:{100,85,70,50} b1:{85,70,50,40} c:{100,85,70,50}
  SHAPES=$(sql -At -c "SELECT DISTINCT ON (split_part(shape, '_', 1)) replace(shape, '_', ':') FROM summary
      ORDER BY split_part(shape, '_', 1), \"WAL B\" + \"disk B\"" | sed -E 'p; s/^b1/b2/' | sort -u)
fi
# shellcheck disable=SC2086
compare "$messages" $SHAPES
# shellcheck disable=SC2086
read_pages ${SHAPES//:/_}
