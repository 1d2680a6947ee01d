#!/usr/bin/env bash
# Load test of the simulator: 500 sends a second with statuses for 10 minutes, then 3,000 a second
# without statuses for a minute. Nothing is lost, both rates are reached, and memory grows by the
# sent log only.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=${PARLEY_PROOF:-full} go test -count=1 -v -timeout=30m -run '^TestProof_Load$' ./internal/simulator
