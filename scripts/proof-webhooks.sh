#!/usr/bin/env bash
# Kills what makes and delivers 20,000 events twenty times, and rotates the secrets of 50,000
# deliveries: nothing is lost, doubled or leaked, and every signature verifies in Node.
set -euo pipefail

cd "$(dirname "$0")/.."
# One at a time: each wants the machine to itself.
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m -run 'TestWebhooks_' ./internal/e2e |
  grep --line-buffered -v 'testdbconf:\|^=== '
