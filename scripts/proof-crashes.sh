#!/usr/bin/env bash
# Kills and stops processes in the middle of requests, revokes keys under load, and kills Redis. No
# answered request may be lost or take effect twice, and no revoked key may be served. Moves a number
# from one organization to another 200 times; its notifications must reach its current owner.
set -euo pipefail

cd "$(dirname "$0")/.."
export PARLEY_PROOF=full
show() { grep --line-buffered -v 'database: postgres\|^=== '; }
go test -count=1 -v -parallel=1 -timeout=30m \
  -run '^Test(Crash|Stop_UnderLoad|RevokedKey|RedisNotReachable|RedisKilled)_.*$' ./internal/e2e | show
go test -count=1 -v -timeout=10m -run '^TestHandOver_' ./internal/domain/accounts | show
