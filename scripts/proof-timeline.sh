#!/usr/bin/env bash
# Fetches timelines over HTTP among a million messages of one account, with 2 million events, 2 million webhook deliveries
# and a million of their attempts. Prints the median and the 99th percentile. Run nothing else on the machine meanwhile.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=60m -run '^TestTimelines_' ./internal/domain/messages |
  grep --line-buffered -v 'database: postgres\|^=== '
