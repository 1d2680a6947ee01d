#!/usr/bin/env bash
# Writes the script that shows the reference at /docs from its npm package, which files/NOTICE.txt names. With --check it
# compares instead. For another version change NOTICE.txt (`npm view NAME@VERSION dist.integrity`), the name in
# reference.go, and run this.
#
# usage: scripts/viewer.sh [--check]
set -euo pipefail

cd "$(dirname "$0")/../internal/edge/reference/files"
noted() { sed -n "s/^$1: *//p" NOTICE.txt; }
package=$(noted package) version=$(noted version) integrity=$(noted integrity)
file=scalar-$version.js.gz

# The package is kept per user under its hash, so that a check needs the network once.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/parley-tools
tarball=$cache/viewer-$(sha256sum <<<"$integrity" | cut -c1-16).tgz
if [[ ! -f $tarball ]]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  npm pack --silent --pack-destination "$scratch" "$package@$version" >/dev/null
  mkdir -p "$cache"
  mv "$scratch"/*.tgz "$tarball"
fi
found=sha512-$(openssl dgst -sha512 -binary "$tarball" | base64 --wrap=0)
if [[ $found != "$integrity" ]]; then
  rm "$tarball"
  echo "$package@$version has the hash $found; NOTICE.txt says $integrity" >&2
  exit 1
fi

shown() { tar --extract --gzip --to-stdout --file="$tarball" "package/$(noted file)"; }
if [[ ${1:-} == --check ]]; then
  cmp <(shown) <(gunzip --stdout "$file") || { echo "$file is not that of $package@$version: run 'make viewer'" >&2 && exit 1; }
else
  rm -f scalar-*.js.gz
  shown | gzip -9 --no-name >"$file"
  sed -i "s/^sha256: .*/sha256:    $(shown | sha256sum | cut -d' ' -f1)/" NOTICE.txt
fi
