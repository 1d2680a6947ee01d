#!/usr/bin/env bash
# Runs make targets one after another, with a heading and the time each took, up to the first
# that fails.
#
# usage: scripts/check.sh TARGET...
set -euo pipefail

cd "$(dirname "$0")/.."
for step in "$@"; do
  printf '\n==> %s\n' "$step"
  began=$SECONDS
  make --no-print-directory "$step" || { echo "==> $step failed after $((SECONDS - began)) s" >&2 && exit 1; }
  echo "==> $step took $((SECONDS - began)) s"
done
