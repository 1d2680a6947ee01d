#!/usr/bin/env bash
# Purges a disconnected number of an organization with five million events.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run '^TestPurge_MillionsOfEvents' ./internal/domain/accounts |
  grep --line-buffered -v 'database: postgres\|^=== '
