#!/usr/bin/env bash
# Runs 10,000 random histories of identities, 5,000 bulk calls by 50 clients at once, and lists,
# filters and searches of a million contacts.
set -euo pipefail

cd "$(dirname "$0")/.."
show() { grep --line-buffered -v 'database: postgres\|^=== '; }
go test -count=1 -v -run '^TestResolver_' ./internal/domain/contacts/identity -rapid.checks=100000 | show
export PARLEY_PROOF=full
# One test at a time, because each measures.
go test -count=1 -v -parallel=1 -timeout=60m -run '^(TestResolve_.*|TestListContacts_AllPages_SameAsAFilterInGo)$' ./internal/domain/contacts | show
go test -count=1 -v -parallel=1 -timeout=30m -run '^TestContacts_ConcurrentBulkCalls_CountsAddUp$' ./internal/edge/api | show
go test -count=1 -v -parallel=1 -timeout=60m -run '^TestProof_AMillion$' ./internal/domain/contacts | show
