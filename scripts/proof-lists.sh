#!/usr/bin/env bash
# 64 parallel worst lists of one organization: its neighbour's requests take at most twice as long, none is refused.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=10m -run '^TestLists_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
