#!/usr/bin/env bash
# Kills 200 processes that create and complete setup links, at each of their steps. Each must leave nothing, and the
# visitor connects the number, or the whole. Then 24 customers and their links change at once while the webhook endpoint
# fails at random: the events of each customer arrive in order.
set -euo pipefail

cd "$(dirname "$0")/.."
export PARLEY_PROOF=full
show() { grep --line-buffered -v 'database: postgres\|^=== '; }
go test -count=1 -v -timeout=30m -run '^TestCrash_' ./internal/edge/onboarding | show
go test -count=1 -v -timeout=30m -run '^TestOrder_' ./internal/domain/setuplinks | show
