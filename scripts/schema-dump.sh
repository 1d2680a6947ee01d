#!/usr/bin/env bash
# Migrates an empty database and writes its schema to schema/schema.sql, for readers.
# Needs a PostgreSQL in which it may create a database, and pg_dump.
#
# usage: scripts/schema-dump.sh [--check]    --check writes nothing, and fails when the file is stale
set -euo pipefail

cd "$(dirname "$0")/.."
server=${PARLEY_TEST_DATABASE_URL:-postgres://127.0.0.1:5432/postgres}
name=parley_schema_$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')

# The URL of the scratch database is the server's, with another path.
address=${server%%\?*} options=${server#"${server%%\?*}"}
scratch_url=${address%/*}/$name$options
fresh=$(mktemp)

cleanup() {
  rm -f "$fresh"
  psql "$server" -qc "DROP DATABASE IF EXISTS $name WITH (FORCE)" >/dev/null 2>&1 || true
}
trap cleanup EXIT

psql "$server" -qc "CREATE DATABASE $name"
PARLEY_DATABASE_URL=$scratch_url \
  PARLEY_MASTER_KEY=$(head -c 32 /dev/zero | base64) \
  go run ./cmd/parley migrate >&2

# Left out: partitions named after a date, settings that differ between servers, and comments.
pg_dump --schema-only --no-owner --no-privileges --exclude-table='*_p[0-9]{6,8}' "$scratch_url" |
  awk '/^(--|SET |\\(un)?restrict )/ || /set_config\(/ { next }
       /^$/ { gap = started; next }
       { if (gap) print ""; print; gap = 0; started = 1 }' >"$fresh"

if [[ ${1:-} != --check ]]; then
  cp "$fresh" schema/schema.sql
elif ! diff -u schema/schema.sql "$fresh"; then
  echo "schema/schema.sql differs from the schema that the migrations make: run 'make schema' and commit it" >&2
  exit 1
fi
