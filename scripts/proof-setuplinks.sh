#!/usr/bin/env bash
# Kills 200 processes that create and complete setup links, at each of their steps. Each must leave nothing, and the
# visitor connects the number, or the whole.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run '^TestCrash_' ./internal/edge/onboarding |
  grep --line-buffered -v 'database: postgres\|^=== '
