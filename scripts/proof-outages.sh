#!/usr/bin/env bash
# Holds the promises about seconds: a pool that is exhausted, a cell, a directory and a database
# that are away, a Redis that is slow. It wants the machine to itself.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m \
  -run '^(TestAPoolThatIsExhausted|TestACellThatIsAway.*|TestADirectoryThatIsAway.*|TestADatabaseThatIsAway|TestASlowRedisAddsLittle)$' ./internal/e2e |
  grep --line-buffered -v 'testdbconf:\|^=== '
