#!/usr/bin/env bash
# Prints the path of Chromium. When the machine has none, it installs Debian's, if it runs as root.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
  command -v "$name" && exit
done
if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
  echo "no Chromium found: install one, or set PARLEY_BROWSER=none to skip the tests that need it" >&2
  exit 1
fi
{
  apt-get update -qq
  # Recommended packages would upgrade half of the system.
  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium
} >&2
command -v chromium
