# `make help` lists the commands; the text after `##` is their help.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# go.mod names the Go version, and an older or newer Go downloads it. Only the race detector needs C.
export GOTOOLCHAIN := auto
export CGO_ENABLED := 0
export REDOCLY_TELEMETRY := off
export REDOCLY_SUPPRESS_UPDATE_NOTICE := true

# The steps of `make check`: short ones first, the tests last, and then what reads their results. `lint` does what `vet` does.
CHECKS := tidy-check openapi viewer-check compile schema-check fmt-check lint clients sdk build container quickstart operations race conformance

# For programs that compile: with more memory (600 instead of 430 MB each) they take a sixth less CPU.
COMPILING := GOGC=400

FUZZTIME ?= 30s

# How many packages `make race` tests at once, and how many tests at once in each. The product may
# exceed the number of cores, because many tests wait. All use one server of 600 connections.
RACE_PACKAGES ?= 3
RACE_TESTS ?= 4

.PHONY: errors help dev build compile test race conformance bench fuzz container quickstart operations check fmt fmt-check vet lint tidy tidy-check openapi viewer viewer-check clients schema schema-check fetch clients-write sdk

help: ## List these commands
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):[^#]*## */\1\t/' | expand -t 14

dev: ## Run everything on this machine in one process
	go run ./cmd/parley dev

build: ## Build the server into .bin/parley
	go build -o .bin/parley ./cmd/parley

compile:
	@$(COMPILING) go build ./...

test: ## Run the tests of packages that changed since the last run
	go test ./...

race: export CGO_ENABLED := 1
race: ## Run all tests under the race detector, and write their results to .bin/tests.json
	$(COMPILING) go build -race ./...
	scripts/test-postgres.sh $$(scripts/tool.sh gotestsum) --format=pkgname-and-test-fails --jsonfile-timing-events=.bin/tests.json -- \
		-race -vet=off -p=$(RACE_PACKAGES) -parallel=$(RACE_TESTS) -count=1 -timeout=40m ./...

conformance: ## Check docs/conformance.md against the results of make race
	@scripts/conformance.sh

bench: ## Compare a request with the bare database statements
	go run ./cmd/bench pipeline

fuzz: ## Run each fuzz test for FUZZTIME (30s)
	@scripts/fuzz.sh $(FUZZTIME)

quickstart: ## Run the commands of the README's quickstart
	@scripts/test-postgres.sh scripts/quickstart.sh

container: ## Check the Dockerfile and compose.yaml, without Docker
	@scripts/check-container.sh

operations: ## Run the commands of docs/operations.md from nothing to the first request
	@scripts/test-postgres.sh scripts/operations.sh

proof-%: ## Run scripts/proof-NAME.sh at full size, e.g. make proof-move
	@scripts/proof-$*.sh

check: ## Run all checks of CI
	@scripts/test-postgres.sh scripts/check.sh $(CHECKS)

fmt: ## Format the Go code
	@$$(scripts/tool.sh golangci-lint) fmt

fmt-check:
	@$$(scripts/tool.sh golangci-lint) fmt --diff || { echo "run 'make fmt'" >&2; exit 1; }

vet: ## Run go vet
	go vet ./...

# The linters read the compiled packages that `make race` needs too, so that those of tests are compiled once.
lint: ## Run the linters (.golangci.yml)
	@CGO_ENABLED=1 GOFLAGS=-race $(COMPILING) $$(scripts/tool.sh golangci-lint) run

tidy: ## Run go mod tidy
	go mod tidy

tidy-check:
	@go mod tidy -diff || { echo "run 'make tidy'" >&2; exit 1; }

openapi: ## Lint the contract
	@$$(scripts/tool.sh redocly) lint --config openapi/redocly.yaml openapi/openapi.yaml

viewer: ## Write the script that shows the reference from its npm package
	@scripts/viewer.sh

viewer-check:
	@scripts/viewer.sh --check

clients: ## Check that the SDKs fit the contract, and compile them
	@scripts/generate-clients.sh

clients-write: ## Write the types and methods of the SDKs from the contract
	@scripts/generate-clients.sh --write

sdk: ## Play the cases of the SDKs, and run their examples against `parley dev`
	@scripts/test-postgres.sh scripts/sdk.sh

schema: ## Write schema/schema.sql from the migrations
	@scripts/test-postgres.sh scripts/schema-dump.sh

errors: ## Write docs/errors.md from the codes of the product
	@PARLEY_WRITE_DOCS=1 go test -vet=off -count=1 -run TestErrors_Guide ./internal/edge/api

schema-check:
	@scripts/test-postgres.sh scripts/schema-dump.sh --check

fetch: ## Download everything that the other commands need
	@scripts/fetch.sh
