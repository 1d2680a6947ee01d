#!/usr/bin/env bash
# Runs the marked blocks of the README's quickstart on a scratch database, and checks that the message
# was read, and that the receiver got all events with valid signatures.
set -euo pipefail

cd "$(dirname "$0")/.."
server=${PARLEY_TEST_DATABASE_URL:-postgres://127.0.0.1:5432/postgres}
database=parley_quickstart_$$
export PARLEY_DATABASE_URL="${server%/*}/$database"
scratch=$(mktemp -d)
GOCACHE=$(go env GOCACHE) # Go keeps its cache; `parley dev` stores files in the scratch directory
export GOCACHE XDG_CACHE_HOME=$scratch/cache
log=$scratch/parley.log received=$scratch/received.log

# Prints the blocks of the README below the marks of this name.
blocks() {
  scripts/block.sh README.md "quickstart: $1"
}

cleanup() {
  for process in ${receiver:-} ${parley:-}; do
    { kill "$process" && wait "$process"; } 2>/dev/null || true
  done
  psql -qd "$server" -c "DROP DATABASE IF EXISTS $database WITH (FORCE)" >/dev/null
  rm -rf "$scratch"
}
trap cleanup EXIT

# Waits until a condition is true.
await() {
  for _ in $(seq 240); do
    "${@:2}" && return
    sleep 0.5
  done
  echo "quickstart: $1" >&2
  cat "$log" "$received" >&2
  exit 1
}

began=$SECONDS
blocks build >"$scratch/build"
# shellcheck disable=SC1091
(export GOTOOLCHAIN=local && source "$scratch/build")
blocks start | sed -E 's|^(.*parley dev)$|exec \1 --addr 127.0.0.1:0|' >"$scratch/start"
start() {
  # shellcheck disable=SC1091
  source "$scratch/start" >"$log" 2>&1 &
  parley=$!
}
start
for _ in $(seq 600); do
  grep -q 'Stop with Ctrl-C' "$log" && break
  if ! kill -0 "$parley" 2>/dev/null; then
    # When the machine stood still for a second, the database did not answer in time: try again.
    grep -q 'acquire connection' "$log" || { cat "$log" >&2 && exit 1; }
    start
  fi
  sleep 0.5
done
eval "$(grep -o 'export PARLEY_[A-Z]*=.*' "$log")"

blocks listen | sed -E 's|^(.*parley listen)$|exec \1|' >"$scratch/listen"
# shellcheck disable=SC1091
(source "$scratch/listen") >"$received" 2>&1 </dev/null &
receiver=$!
await "the events are not received" grep -q 'Parley posts events' "$received"

answers=$(eval "$(blocks send)")
echo "$answers"
arrived() {
  for what in message.sent 'message.received  from 15550100001 text "Hello back"' ' sent ' ' delivered ' ' read '; do
    grep -q "$what" "$received" || return 1
  done
}
await "not all events arrived" arrived
if grep '^\[[0-9]*\]' "$received" | grep -v '  OK → 200$'; then
  echo "quickstart: a signature does not verify" >&2
  exit 1
fi
grep -q 'Hello back' <<<"$answers" || await "the answer is not in the inbox" bash -c \
  "curl -s '$PARLEY_URL/$PARLEY_NUMBER/messages' -H 'Authorization: Bearer $PARLEY_KEY' | grep -q 'Hello back'"
echo "quickstart: from build to a message round in $((SECONDS - began)) s"
