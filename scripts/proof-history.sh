#!/usr/bin/env bash
# Lists and fetches among 5 million messages of 1,000 organizations and 365 days, with every filter, beside
# the same among 50,000, on a server that caches a part of its data as usual in production. Prints the plans.
# Takes 3 minutes and 12 GB of memory. Run nothing else on the machine meanwhile.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_TEST_SHARED_BUFFERS=4GB PARLEY_PROOF=full scripts/test-postgres.sh go test -count=1 -v -parallel=1 -timeout=60m -run '^TestHistory_' ./internal/domain/messages |
  grep --line-buffered -v 'database: postgres\|^=== '
