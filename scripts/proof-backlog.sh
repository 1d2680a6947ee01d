#!/usr/bin/env bash
# Deletes and discards a backlog of a million deliveries, and changes the URL with a million retries: the request must answer within a second.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run '^TestBacklog_' ./internal/domain/webhooks |
  grep --line-buffered -v 'database: postgres\|^=== '
