#!/usr/bin/env bash
# Statuses of messages in every order, with duplicates: 5,000 messages in 100 orders by the merge alone, and 100 messages in
# 50 orders on PostgreSQL. Rows and events are the same for every order.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full scripts/test-postgres.sh go test -count=1 -v -timeout=20m \
  -run '^(TestState_CallbacksInAnyOrder|TestStatuses_AnyOrder)' ./internal/domain/messages |
  grep --line-buffered -v 'database: postgres\|^=== '
