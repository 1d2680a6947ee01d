#!/usr/bin/env bash
# Seals a million tokens again under a new master key, is stopped on the way, and goes on.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run '^TestReseal_' ./internal/cell |
  grep --line-buffered -v 'database: postgres\|^=== '
