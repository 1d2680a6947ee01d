#!/usr/bin/env bash
# Kills and stops processes in the middle of requests, revokes keys under load, and takes Redis
# away: nothing that was answered is lost or done twice, and no revoked key is served.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m \
  -run '^(TestAnAnswerLost.*|TestACommitThat.*|TestABurstCut.*|TestAStopUnderLoad.*|TestARevokedKey.*|TestRequests.*Redis)$' ./internal/e2e |
  grep --line-buffered -v 'testdbconf:\|^=== '
