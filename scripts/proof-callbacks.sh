#!/usr/bin/env bash
# Kills what takes and applies 20,000 callbacks of the provider twenty times: each that was
# answered with 200 is kept and handed on.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run 'TestCallbacks_' ./internal/e2e |
  grep --line-buffered -v 'testdbconf:\|^=== '
