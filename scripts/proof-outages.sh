#!/usr/bin/env bash
# Checks how fast requests are answered while the pool is exhausted, a cell, the directory or the
# database is down, or Redis is slow. Run nothing else on the machine meanwhile.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m \
  -run '^Test(PoolExhausted|CellDown|DirectoryDown|DatabaseDown_Requests|RedisSlow).*$' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
