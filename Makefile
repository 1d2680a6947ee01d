# The everyday commands. `make help` lists them; a line's `##` is its help.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# go.mod names the Go version, and any Go fetches that one. Only the race detector needs C.
export GOTOOLCHAIN := auto
export CGO_ENABLED := 0
export REDOCLY_TELEMETRY := off
export REDOCLY_SUPPRESS_UPDATE_NOTICE := true

# What `make check` runs: the cheap and telling first, the tests last.
CHECKS := tidy-check vet openapi schema-check fmt-check lint clients build quickstart race

FUZZTIME ?= 30s

# Packages that `make race` tests at once, and tests at once within each. More than there are
# cores, because many tests wait. Their databases are on one server of 600 connections.
RACE_PACKAGES ?= 3
RACE_TESTS ?= 4

.PHONY: help dev build test race bench fuzz quickstart check fmt fmt-check vet lint tidy tidy-check openapi clients schema schema-check fetch

help: ## List these commands
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):[^#]*## */\1\t/' | expand -t 14

dev: ## Run everything on this machine in one process
	go run ./cmd/parley dev

build: ## Build the server into .bin/parley
	go build -o .bin/parley ./cmd/parley

test: ## Run the tests; what did not change is not run again
	go test ./...

race: export CGO_ENABLED := 1
race: ## Run all tests anew under the race detector (`make vet` is its own step)
	go build -race ./...
	scripts/test-postgres.sh go test -race -vet=off -p=$(RACE_PACKAGES) -parallel=$(RACE_TESTS) -count=1 -timeout=20m ./...

bench: ## Measure a request against the bare engine
	go run ./cmd/bench pipeline

fuzz: ## Run each fuzz test for FUZZTIME (30s)
	@scripts/fuzz.sh $(FUZZTIME)

quickstart: ## Do what the README's quickstart says, as a stranger would
	@scripts/test-postgres.sh scripts/quickstart.sh

proof-%: ## Run one proof of a promise: scripts/proof-NAME.sh, e.g. make proof-move
	@scripts/proof-$*.sh

check: ## Everything that a change must pass
	@scripts/test-postgres.sh scripts/check.sh $(CHECKS)

fmt: ## Format the Go code
	@$$(scripts/tool.sh golangci-lint) fmt

fmt-check:
	@$$(scripts/tool.sh golangci-lint) fmt --diff || { echo "run 'make fmt'" >&2; exit 1; }

vet: ## Ask the compiler's own checker
	go vet ./...

lint: ## Ask the linters (.golangci.yml)
	@$$(scripts/tool.sh golangci-lint) run

tidy: ## Bring go.mod in line with the imports
	go mod tidy

tidy-check:
	@go mod tidy -diff || { echo "run 'make tidy'" >&2; exit 1; }

openapi: ## Lint the contract
	@$$(scripts/tool.sh redocly) lint --config openapi/redocly.yaml openapi/openapi.yaml

clients: ## Generate a TypeScript and a Go client and compile both
	@scripts/generate-clients.sh

schema: ## Write schema/schema.sql anew from the migrations
	@scripts/test-postgres.sh scripts/schema-dump.sh

schema-check:
	@scripts/test-postgres.sh scripts/schema-dump.sh --check

fetch: ## Download all that the other commands need, at once
	@scripts/fetch.sh
