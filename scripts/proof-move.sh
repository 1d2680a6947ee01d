#!/usr/bin/env bash
# Moves an organization of 200,000 rows between two cells five times while a neighbour works, and one
# of 5,000 rows while it is written to, and by four at once.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF_ROWS=${PARLEY_PROOF_ROWS:-200000} PARLEY_PROOF=full \
  go test -count=1 -v -parallel=1 -timeout=20m -run 'TestMove_(DisturbsNobody|LosesNothing.*|TwoAtOnce)' ./internal/app
