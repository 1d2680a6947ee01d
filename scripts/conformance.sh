#!/usr/bin/env bash
# Checks that each row of docs/conformance.md names tests that ran and passed. `make race` writes their results.
#
# usage: scripts/conformance.sh [RESULTS]
set -euo pipefail

cd "$(dirname "$0")/.."
go run ./internal/testkit/conformance docs/conformance.md "${1:-.bin/tests.json}"
