#!/usr/bin/env bash
# Kills the processes that make and deliver 20,000 events twenty times, and rotates secrets during
# 50,000 deliveries. No event may be lost, made twice or leaked, and every signature must verify in Node.
set -euo pipefail

cd "$(dirname "$0")/.."
# One test at a time, because each measures.
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m -run 'TestWebhooks_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
