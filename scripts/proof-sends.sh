#!/usr/bin/env bash
# Kills the processes that accept and send 10,000 messages twenty times: once while every callback
# comes, and once while those of 5 % of the messages never do. No message may be lost. None may be sent
# twice in the first run; in the second only those whose callbacks never came, and none three times.
set -euo pipefail

cd "$(dirname "$0")/.."
# One run at a time, because each has a limit of time.
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m -run 'TestSends_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
