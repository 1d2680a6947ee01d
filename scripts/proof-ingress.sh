#!/usr/bin/env bash
# 200 sends a second for two minutes, with three callbacks each: how long the provider waits for its 200.
# Then people write while the database of one cell is away for a minute, and while all are: nothing is missing.
# Run nothing else on the machine meanwhile.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m -run '^TestIngress_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
