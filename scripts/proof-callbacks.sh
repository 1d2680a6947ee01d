#!/usr/bin/env bash
# Kills the processes that receive and apply 20,000 callbacks of the provider twenty times. Each
# callback that was answered with 200 must be stored and reach its consumers. Then 600 strangers stall
# while genuine callbacks are timed.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run 'TestCallbacks_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
PARLEY_PROOF=full go test -count=1 -v -timeout=10m -run 'TestIngress_Stalled' ./internal/edge/callbacks |
  grep --line-buffered -v 'database: postgres\|^=== '
