#!/usr/bin/env bash
# Runs every fuzz test of the module, one after another: Go fuzzes only one at a time.
#
# usage: scripts/fuzz.sh TIME    as in 30s
set -euo pipefail

cd "$(dirname "$0")/.."
duration=${1:?usage: scripts/fuzz.sh TIME}
grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' cmd internal | while IFS=: read -r file func; do
  go test -run='^$' -fuzz="^${func#func }\$" -fuzztime="$duration" "./${file%/*}"
done
