#!/usr/bin/env bash
# Runs a command with a PostgreSQL server of its own in PARLEY_TEST_DATABASE_URL, and removes the
# server when the command has ended. The server allows many connections, so that packages are
# tested side by side, and never waits for the disk: a crash of the machine may destroy it.
# PARLEY_TEST_SHARED_BUFFERS is how much it caches (256MB), PARLEY_TEST_PORT its port (a free one).
# With PARLEY_TEST_DATABASE_URL already set, the command uses that server and none is started.
#
# usage: scripts/test-postgres.sh COMMAND [ARGUMENT...]
set -euo pipefail

[[ $# -gt 0 ]] || { echo 'usage: scripts/test-postgres.sh COMMAND [ARGUMENT...]' >&2 && exit 2; }
[[ -z ${PARLEY_TEST_DATABASE_URL:-} ]] || exec "$@"

# Debian keeps the server's programs out of PATH.
programs=/usr/lib/postgresql/15/bin
[[ -x $programs/initdb ]] || programs=$(dirname "$(command -v initdb)")
[[ -x $programs/initdb ]] || {
  echo 'initdb is missing: install PostgreSQL 15, or set PARLEY_TEST_DATABASE_URL' >&2 && exit 1
}

# PostgreSQL refuses to run as root.
as_server=()
[[ $(id -u) != 0 ]] || as_server=(runuser -u postgres --)
server() { (cd / && "${as_server[@]}" "$@"); }

# In memory where there is enough of it: a database per test makes and deletes hundreds of thousands of files.
base=/tmp
[[ $(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -1) -lt 8 ]] || base=/dev/shm
directory=$(server mktemp -d "$base/parley-postgres.XXXXXX")
data=$directory/data log=$directory/log
cleanup() {
  server "$programs/pg_ctl" --pgdata="$data" --mode=immediate stop &>/dev/null || true
  rm -rf "$directory" 2>/dev/null || { sleep 2 && rm -rf "$directory"; } # a backend may still write
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

server "$programs/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8 \
  --locale=C.UTF-8 --no-sync >/dev/null
server tee -a "$data/postgresql.conf" >/dev/null <<SETTINGS
listen_addresses = '127.0.0.1'
unix_socket_directories = '$directory'
max_connections = 600
shared_buffers = ${PARLEY_TEST_SHARED_BUFFERS:-256MB}
fsync = off
full_page_writes = off
synchronous_commit = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 4GB
checkpoint_timeout = 1h
SETTINGS

# The ports lie below those that the kernel gives to outgoing connections. When another process
# has the port, the server does not start and another port is tried.
for _ in {1..20}; do
  port=${PARLEY_TEST_PORT:-$((10000 + RANDOM % 10000))}
  server "$programs/pg_ctl" --pgdata="$data" --log="$log" --options="-p $port" --timeout=300 start &>/dev/null || continue
  export PARLEY_TEST_DATABASE_URL=postgres://postgres@127.0.0.1:$port/postgres
  break
done
[[ -n ${PARLEY_TEST_DATABASE_URL:-} ]] || { cat "$log" >&2 && exit 1; }

"$@"
