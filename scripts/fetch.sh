#!/usr/bin/env bash
# Downloads modules and packages in parallel, so that later steps do not wait for the network one
# after another. A download that fails here is repeated, and reported, by the step that needs it.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
fetch() { (cd "$1" && shift && "$@" >/dev/null 2>&1) & }

fetch . go list -deps -test ./...
for module in tools/*/go.mod; do
  fetch "${module%/*}" go list -deps tool
done
fetch tools/clients/go go mod download
fetch . scripts/tool.sh redocly
fetch . scripts/viewer.sh --check
wait
