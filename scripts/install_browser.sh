#!/bin/sh
# Installs Debian's chromium for the browser tests, unless one is on PATH. It says so first, and uses sudo if it must.
# Where chromium cannot be installed, one line says so, and the browser tests are skipped.
set -u

if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then
    exit 0
fi
skipped() {
    echo "The browser tests are skipped: no chromium on PATH, and $1."
    exit 0
}

command -v apt-get >/dev/null || skipped "there is no apt-get to install it with"
if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    skipped "sudo needs a password here (run: sudo apt-get install chromium)"
fi
echo "Installing chromium for the browser tests, once: $as_root apt-get install chromium ..."
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends chromium; } >"$log" 2>&1 ||
    skipped "apt-get could not install it: $(tail -n 1 "$log")"
