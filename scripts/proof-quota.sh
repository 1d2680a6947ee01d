#!/usr/bin/env bash
# Four processes accept 6,000 sends of an organization that has 3,000 of 20,000 messages left: exactly
# 3,000 are accepted. Then the same, and two processes are killed.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=20m -run '^TestQuota_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
