#!/usr/bin/env bash
# Prints the path of Chromium. When the machine has none, it installs Debian's, if it runs as root.
set -euo pipefail

found() {
  for name in chromium chromium-browser google-chrome; do
    command -v "$name" && return
  done
  return 1
}

found && exit
if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
  echo "no Chromium found: install one, or set PARLEY_BROWSER=none to skip the tests that need it" >&2
  exit 1
fi
# Packages are tested side by side: the first that needs a browser installs it, the others wait.
exec 9>/tmp/parley-browser.lock
flock 9
found && exit
{
  apt-get update -qq
  # Recommended packages would upgrade half of the system.
  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends -o DPkg::Lock::Timeout=300 chromium
} >&2
found
