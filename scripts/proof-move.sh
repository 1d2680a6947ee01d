#!/usr/bin/env bash
# Moves an organization of 200,000 rows between two cells three times while another organization sends
# requests, and a smaller one while requests write to it, and with four commands at once.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF_ROWS=${PARLEY_PROOF_ROWS:-200000} PARLEY_PROOF=full \
  go test -count=1 -v -parallel=1 -timeout=40m -run 'TestMove_(LargeOrganization|ConcurrentWrites|FourAtOnce)_.*' ./internal/app
