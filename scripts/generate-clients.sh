#!/usr/bin/env bash
# Checks that customers can generate clients from the contract: generates one in TypeScript and one
# in Go, compiles both and deletes them.
set -euo pipefail

cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

typescript() {
  local generate compile
  generate=$(scripts/tool.sh openapi-ts) compile=$(scripts/tool.sh tsc)
  cp tools/clients/tsconfig.json "$scratch/tsconfig.json"
  "$generate" --input ./openapi/openapi.yaml --output "$scratch/ts" --client @hey-api/client-fetch --silent
  "$compile" --project "$scratch"
  echo "TypeScript client: compiles"
}

# The module is a copy of tools/clients/go, which pins the compiler and the client's libraries.
# skip-prune keeps schemas that only webhooks use.
golang() {
  local generate
  generate=$(scripts/tool.sh oapi-codegen)
  mkdir "$scratch/go"
  cp tools/clients/go/go.mod tools/clients/go/go.sum "$scratch/go"
  "$generate" -generate types,client,skip-prune -package parley -o "$scratch/go/parley.go" openapi/openapi.yaml
  (cd "$scratch/go" && go vet ./...)
  echo "Go client: compiles"
}

typescript
golang
