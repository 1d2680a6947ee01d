#!/usr/bin/env bash
# Generates the types and methods of the SDKs from the contract, checks that the committed ones are the
# same, and compiles them. With --write it replaces the committed ones.
# It also generates a Go client with oapi-codegen, compiles it and deletes it: customers may generate
# their own, and its parser is stricter than ours.
#
# usage: scripts/generate-clients.sh [--write]
set -euo pipefail

cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
made=(
  sdk/testdata/operations.json
  sdk/go/types_generated.go sdk/go/operations_generated.go
  sdk/typescript/src/types.ts sdk/typescript/src/operations.ts
  sdk/python/src/parley/types.py sdk/python/src/parley/_operations.py
)

generate() {
  "$(scripts/tool.sh redocly)" bundle --config openapi/redocly.yaml openapi/openapi.yaml --ext json -o "$scratch/openapi.json" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" >&2 && exit 1; }
  PYTHONDONTWRITEBYTECODE=1 python3 sdk/generate/generate.py "$scratch/openapi.json" "$scratch/sdk"
  gofmt -w "$scratch/sdk/go"
  "$(scripts/tool.sh openapi-ts)" --input ./openapi/openapi.yaml --output "$scratch/ts" --plugins @hey-api/typescript --silent
  mv "$scratch/ts/types.gen.ts" "$scratch/sdk/typescript/src/types.ts"
}

compare() {
  for file in "${made[@]}"; do
    diff -u "$file" "$scratch/$file" | head -40 || { echo "run 'make clients-write'" >&2 && exit 1; }
  done
}

compile() {
  "$(scripts/tool.sh tsc)" --project sdk/typescript
  "$(scripts/tool.sh tsc)" --project sdk/typescript/test
  (cd sdk/go && go mod tidy -diff && go vet ./...)
  echo "SDKs: up to date, and they compile"
}

# The module is a copy of tools/clients/go, which pins the compiler and the client's libraries.
# skip-prune keeps schemas that only webhooks use.
foreign() {
  local generate
  generate=$(scripts/tool.sh oapi-codegen)
  mkdir "$scratch/foreign"
  cp tools/clients/go/go.mod tools/clients/go/go.sum "$scratch/foreign"
  "$generate" -generate types,client,skip-prune -package parley -o "$scratch/foreign/parley.go" openapi/openapi.yaml
  (cd "$scratch/foreign" && go vet ./...)
  echo "Go client of oapi-codegen: compiles"
}

generate
if [[ ${1:-} == --write ]]; then
  for file in "${made[@]}"; do cp "$scratch/$file" "$file"; done
else
  compare
fi
compile
foreign
