#!/usr/bin/env bash
# Kills, stops and crashes the processes that drain 100,000 rows, and hides rows that always fail
# among 10,000. No row may be lost. Then draws a thousand scripts of crashes that no run had before.
set -euo pipefail

cd "$(dirname "$0")/.."
# One test at a time, because each measures.
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m -run 'TestProcess_' ./internal/platform/lanes |
  grep --line-buffered -v 'database: postgres\|^=== '
PARLEY_PROOF=full go test -count=1 -timeout=30m -run 'TestProperty_' ./internal/platform/lanes -rapid.checks=1000
