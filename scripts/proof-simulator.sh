#!/usr/bin/env bash
# Sends through the simulator: 500 a second with statuses for 10 minutes, then 3,000 a second
# silently for a minute; nothing is lost, the pace is kept, memory grows by the sent log alone.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=${PARLEY_PROOF:-full} go test -count=1 -v -timeout=30m -run '^TestProof_Load$' ./internal/simulator
