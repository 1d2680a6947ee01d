#!/usr/bin/env bash
# Runs a command, and stops all processes that it started, PostgreSQL included, for STOP seconds
# after every RUN seconds. A test that fails here depends on the machine being fast.
#
# usage: [RUN=4] [STOP=3] scripts/stutter.sh COMMAND [ARGUMENT...]
#        e.g. scripts/stutter.sh scripts/test-postgres.sh go test -count=1 ./internal/e2e
set -euo pipefail

[[ $# -gt 0 ]] || { echo 'usage: scripts/stutter.sh COMMAND [ARGUMENT...]' >&2 && exit 2; }

# A daemon leaves the process tree but keeps its environment, so the mark finds it. A program
# that the tests start with a clean environment is found as a child.
mark=PARLEY_STUTTER=$$-$RANDOM
marked() {
  grep --files-with-matches --no-messages --text --fixed-strings "$mark" /proc/[0-9]*/environ | cut -d/ -f3 || true
}
started() {
  { ps -e -o pid= -o ppid=; marked | sed 's/$/ marked/'; } | awk '
    $2 == "marked" { found[$1] = 1; next }
    { parent[$1] = $2 }
    END {
      do {
        grown = 0
        for (pid in parent) if (!(pid in found) && parent[pid] in found) { found[pid] = 1; grown = 1 }
      } while (grown)
      for (pid in found) if (pid in parent) print pid
    }'
}
signal() { started | xargs --no-run-if-empty kill "-$1" 2>/dev/null || true; }

env "$mark" "$@" &
command=$!
trap 'signal CONT; kill "$command" 2>/dev/null || true' EXIT
while sleep "${RUN:-4}" && kill -0 "$command" 2>/dev/null; do
  signal STOP
  sleep "${STOP:-3}"
  signal CONT
done
wait "$command"
