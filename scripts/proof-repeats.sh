#!/usr/bin/env bash
# Runs at full size the tests that repeat a race: 10,000 duplicate requests, 1,000 hand-overs of numbers, 200 killed
# processes, 100 histories of a quota. CI runs fewer rounds of them, under the race detector.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full scripts/test-postgres.sh go test -count=1 -v -timeout=20m \
  -run '^(TestIdempotency_ConcurrentDuplicates|TestClaim_Concurrent|TestGeneration_|TestCrash_ProcessKilled|TestReserve_AnyHistory|TestSent_ManyEntries)' \
  ./internal/edge/api ./internal/platform/directory ./internal/domain/quota ./internal/simulator |
  grep --line-buffered -v 'database: postgres\|^=== '
