#!/usr/bin/env bash
# Fifty documents of 100 MiB arrive at once, and fifty are uploaded to the library: each is stored whole, and memory stays
# flat. Needs 20 GB on disk.
# Files go to an S3-compatible server (versitygw) that is slow, away, and back.
set -euo pipefail

cd "$(dirname "$0")/.."
PARLEY_PROOF=full go test -count=1 -v -timeout=30m -run 'TestMedia_|TestLibrary_' ./internal/e2e |
  grep --line-buffered -v 'database: postgres\|^=== '
