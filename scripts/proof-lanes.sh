#!/usr/bin/env bash
# Kills, stops and crashes what drains 100,000 rows, and hides poison among 10,000: nothing is lost.
set -euo pipefail

cd "$(dirname "$0")/.."
# One at a time: each measures, and wants the machine to itself.
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m -run 'TestProcess_' ./internal/platform/lanes |
  grep --line-buffered -v 'testdbconf:\|^=== '
