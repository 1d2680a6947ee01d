#!/usr/bin/env bash
# Downloads modules and packages side by side, so that the steps after it do not wait for the
# network one by one. What fails here is tried again, and reported, by the step that needs it.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
fetch() { (cd "$1" && shift && "$@" >/dev/null 2>&1) & }

fetch . go list -deps -test ./...
for module in tools/*/go.mod; do
  fetch "${module%/*}" go list -deps tool
done
fetch tools/clients/go go mod download
fetch . scripts/tool.sh redocly
wait
