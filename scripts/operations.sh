#!/usr/bin/env bash
# Runs the marked blocks of docs/operations.md, "From nothing to the first request", on a bare database, and checks the
# answers. It replaces the name of the database and the ports, and starts the processes again where the document says so.
set -euo pipefail

cd "$(dirname "$0")/.."
server=${PARLEY_TEST_DATABASE_URL:-postgres://127.0.0.1:5432/postgres}
database=parley_operations_$$
scratch=$(mktemp -d)
program=$PWD/.bin/parley

# createdb has no URL: it reads these.
[[ $server =~ ^postgres(ql)?://(([^:@/]*)(:([^@/]*))?@)?([^:/?]+)(:([0-9]+))?/ ]] || { echo "operations: cannot read $server" >&2 && exit 1; }
export PGUSER=${BASH_REMATCH[3]:-$(id -un)} PGPASSWORD=${BASH_REMATCH[5]} PGHOST=${BASH_REMATCH[6]} PGPORT=${BASH_REMATCH[8]:-5432}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
api=127.0.0.1:$(free_port)
export PARLEY_LISTEN=$api

# Tries again when the machine stood still for a second, so that the database did not answer in time.
parley() {
  for _ in 1 2 3 4 5; do
    "$program" "$@" 2>"$scratch/error" && return
    grep -q 'acquire connection' "$scratch/error" || break
  done
  cat "$scratch/error" >&2
  return 1
}

cleanup() {
  stop
  psql -qd "$server" -c "DROP DATABASE IF EXISTS $database WITH (FORCE)" >/dev/null
  rm -rf "$scratch"
}
trap cleanup EXIT

# Writes the block of this name to a file, with our database and port, and names the file.
block() {
  scripts/block.sh docs/operations.md "operations: $1" |
    sed "s|postgres://127.0.0.1:5432/parley|${server%/*}/$database|; s|createdb parley|createdb $database|; s|127.0.0.1:8080|$api|" >"$scratch/$1" || exit 1
  echo "$scratch/$1"
}

fail() {
  echo "operations: $1" >&2
  cat "$scratch"/*.log >&2
  exit 1
}

# Starts `parley serve` or `parley work` and waits until it is ready.
start() {
  local operator
  operator=127.0.0.1:$(free_port)
  (
    export PARLEY_OPERATOR_LISTEN=$operator PATH=$PWD/.bin:$PATH
    exec bash -c "exec $(cat "$(block "$1")")"
  ) >>"$scratch/$1.log" 2>&1 &
  running+=($!)
  for _ in $(seq 240); do
    curl -sf "http://$operator/readyz" >/dev/null && return
    kill -0 "${running[-1]}" 2>/dev/null || fail "parley $1 ended"
    sleep 0.5
  done
  fail "parley $1 is not ready"
}

running=()
stop() {
  for process in "${running[@]}"; do
    { kill "$process" && wait "$process"; } 2>/dev/null || true
  done
  running=()
}

restart() {
  stop
  start serve
  start work
}

# Runs a block in this shell, so that its variables stay.
run() {
  # shellcheck disable=SC1090
  source "$(block "$1")"
}

answers() { run request | grep -q "\"$ORG\"" || fail "the first request is not answered"; }

go build -o .bin/parley ./cmd/parley
run database
restart
run organization
answers
run subscribe | grep -q '"initial_secret"' || fail "no subscription"
run learn
restart
run seal
restart
run reseal >"$scratch/first"
grep -Eq '^main +1$' "$scratch/first" || fail "$(cat "$scratch/first")"
run reseal >"$scratch/second"
grep -Eq '^main +0$' "$scratch/second" || fail "$(cat "$scratch/second")"
run drop
restart
answers
diagnosis=$(parley doctor) || fail "parley doctor finds fault: $diagnosis"
if grep -Ev '^(ok  |WARN (provider|durability|standby))' <<<"$diagnosis"; then
  fail "parley doctor finds fault"
fi
echo "operations: from nothing to the first request, and a rotation of the master key"
