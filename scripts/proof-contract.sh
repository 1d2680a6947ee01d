#!/usr/bin/env bash
# Sends 61,000 requests that are made from the contract, valid and broken, to all operations, and checks each answer against
# the contract; then the examples of the contract. PARLEY_CONTRACT_REQUESTS and PARLEY_CONTRACT_SEED choose how many and which.
set -euo pipefail

cd "$(dirname "$0")/.."
export PARLEY_PROOF=full
scripts/test-postgres.sh go test -count=1 -v -timeout=60m -run 'TestContract_(GeneratedRequests|Examples)_.*' ./internal/edge/api
