#!/usr/bin/env bash
# Lists and fetches among a million messages of one account, with every filter, beside the same among
# 10,000. Prints the plans. Run nothing else on the machine meanwhile.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=60m -run '^TestMillion_' ./internal/domain/messages |
  grep --line-buffered -v 'database: postgres\|^=== '
