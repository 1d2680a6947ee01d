#!/usr/bin/env bash
# Kills and stops processes in the middle of requests, revokes keys under load, and takes Redis
# away: nothing that was answered is lost or done twice, and no revoked key is served. A number is
# handed from one organization to another 200 times: its notifications reach who has it.
set -euo pipefail

cd "$(dirname "$0")/.."
export PARLEY_PROOF=full
show() { grep --line-buffered -v 'testdbconf:\|^=== '; }
go test -count=1 -v -parallel=1 -timeout=30m \
  -run '^(TestAnAnswerLost.*|TestACommitThat.*|TestABurstCut.*|TestAStopUnderLoad.*|TestARevokedKey.*|TestRequests.*Redis)$' ./internal/e2e | show
go test -count=1 -v -timeout=10m -run '^TestHandOver$' ./internal/domain/accounts | show
