#!/usr/bin/env bash
# Moves an organization of 200,000 rows between two cells five times while a neighbour works.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF_ROWS=${PARLEY_PROOF_ROWS:-200000} go test -count=1 -v -timeout=20m -run 'TestMove_DisturbsNobody' ./internal/app
