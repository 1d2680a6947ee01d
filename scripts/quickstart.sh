#!/usr/bin/env bash
# Runs the marked blocks of the README's quickstart on a scratch database, and checks that they
# created a label.
set -euo pipefail

cd "$(dirname "$0")/.."
server=${PARLEY_TEST_DATABASE_URL:-postgres://127.0.0.1:5432/postgres}
database=parley_quickstart_$$
export PARLEY_DATABASE_URL="${server%/*}/$database"
log=$(mktemp)

# Prints the blocks of the README below the marks of this name.
blocks() {
  awk -v mark="<!-- quickstart: $1 -->" '
    $0 == mark { wanted = 1 }
    wanted && /^```/ { inside = !inside; if (!inside) wanted = 0; next }
    inside && wanted' README.md
}

cleanup() {
  [[ -z ${parley:-} ]] || { kill "$parley" && wait "$parley"; } 2>/dev/null || true
  psql -qd "$server" -c "DROP DATABASE IF EXISTS $database WITH (FORCE)" >/dev/null
  rm -f "$log"
}
trap cleanup EXIT

began=$SECONDS
blocks start | sed -E 's|^(.*parley dev)$|exec \1 --addr 127.0.0.1:0|' >"$log.start"
start() {
  # shellcheck disable=SC1091
  source "$log.start" >"$log" 2>&1 &
  parley=$!
}
start
for _ in $(seq 600); do
  grep -q 'export PARLEY_KEY=' "$log" && break
  if ! kill -0 "$parley" 2>/dev/null; then
    # When the machine stood still for a second, the database did not answer in time: try again.
    grep -q 'acquire connection' "$log" || { cat "$log" >&2 && exit 1; }
    start
  fi
  sleep 0.5
done
rm -f "$log.start"
eval "$(grep -o 'export PARLEY_[A-Z]*=.*' "$log")"
answers=$(eval "$(blocks use)")
echo "$answers"

labels=$(curl -s "$PARLEY_URL/labels" -H "Authorization: Bearer $PARLEY_KEY" | grep -o '"id":"lbl_' | wc -l)
[[ $labels == 1 ]] || { echo "expected one label, found $labels" >&2 && exit 1; }
echo "quickstart: from build to a label in $((SECONDS - began)) s"
