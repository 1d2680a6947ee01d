#!/usr/bin/env bash
# Restores three cells from a base backup and WAL while messages are queued, begun and ambiguous. During the hold the
# provider must not be called. Released with wait and with fail no message may be sent twice; with send at most those that
# the provider took after the moment of the restore.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run 'TestRestore_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
