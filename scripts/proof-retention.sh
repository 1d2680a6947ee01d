#!/usr/bin/env bash
# Expires two million messages, half row by row and half with their month, while others send and read: no statement
# waits for a second, and the 99th percentile grows to at most 1.5 times (median of rounds). Takes 15 minutes. Run nothing else meanwhile.
# PARLEY_PROOF_ROWS is another number of messages.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_TEST_SHARED_BUFFERS=2GB PARLEY_PROOF=full scripts/test-postgres.sh go test -count=1 -v -timeout=40m -run '^TestRetention_Millions' ./internal/domain/retention |
  grep --line-buffered -v 'database: postgres\|^=== '
