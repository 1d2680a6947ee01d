#!/usr/bin/env bash
# Prints the code blocks of a document below the mark <!-- NAME -->. Scripts run these blocks, so that the document stays true.
#
# usage: scripts/block.sh DOCUMENT NAME
set -euo pipefail

[[ $# == 2 ]] || { echo 'usage: scripts/block.sh DOCUMENT NAME' >&2 && exit 2; }
code=$(awk -v mark="<!-- $2 -->" '
  $0 == mark { wanted = 1 }
  wanted && /^```/ { inside = !inside; if (!inside) wanted = 0; next }
  inside && wanted' "$1")
[[ -n $code ]] || { echo "block: $1 has no block $2" >&2 && exit 1; }
printf '%s\n' "$code"
