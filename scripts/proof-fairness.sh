#!/usr/bin/env bash
# Replies of an organization while another has 100,000 messages queued on 50 numbers; beside it the same
# with one job per message. Replies of a number behind 10,000 messages of its own. A customer is suspended
# with 1,000 messages queued. Run nothing else on the machine meanwhile.
set -euo pipefail

cd "$(dirname "$0")/.."
# One test at a time, because each measures.
PARLEY_PROOF=full go test -count=1 -v -parallel=1 -timeout=30m -run '^Test(Fairness|Suspension)_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
