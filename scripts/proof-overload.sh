#!/usr/bin/env bash
# Twice as many requests as a process can serve, of one organization and of sixteen: the process goes on at its capacity,
# and another organization with few requests is not refused. A crowd of 12,000 clients that come back after Retry-After is
# served with at most three requests of each.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full scripts/test-postgres.sh go test -count=1 -v -timeout=10m -run '^TestOverload_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
