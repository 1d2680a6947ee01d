#!/usr/bin/env bash
# Prints the path of a pinned tool. Builds or installs it first if this machine does not have it.
# Go tools are pinned in tools/NAME/go.mod, or written in that directory; all others are pinned in
# tools/clients/package.json.
#
# usage: scripts/tool.sh NAME
set -euo pipefail

name=${1:?usage: scripts/tool.sh NAME}
root=$(cd "$(dirname "$0")/.." && pwd)

# The binary is kept per user, so that a second checkout does not build it again.
go_tool() {
  cd "$root/tools/$name"
  local key cached scratch
  shopt -s nullglob
  key=$({ cat go.mod go.sum ./*.go && go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16)
  cached=${XDG_CACHE_HOME:-$HOME/.cache}/parley-tools/$name-$key
  if [[ ! -x $cached ]]; then
    echo "building $name, once for this machine" >&2
    mkdir -p "${cached%/*}"
    scratch=$(mktemp "$cached.XXXXXX")
    CGO_ENABLED=0 GOGC=400 go build -ldflags='-s -w' -o "$scratch" "$(go list tool)" || { rm -f "$scratch" && exit 1; }
    chmod 755 "$scratch"
    mv "$scratch" "$cached" # atomic, because another checkout may be building it too
  fi
  mkdir -p "$root/.bin"
  ln -sfn "$cached" "$root/.bin/$name"
  echo "$root/.bin/$name"
}

npm_tool() {
  cd "$root/tools/clients"
  if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
    echo "installing the tools of tools/clients/package.json" >&2
    npm ci --loglevel=error >&2
  fi
  echo "$root/tools/clients/node_modules/.bin/$name"
}

if [[ -f $root/tools/$name/go.mod ]]; then go_tool; else npm_tool; fi
