#!/bin/sh
# The browser that the tests of the page run in: Debian's chromium. Nothing is done where one is on PATH; where none can
# be installed the tests of the page say so and are skipped.
set -u

if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then
    exit 0
fi
left_out() {
    echo "The tests of the page in a browser are left out: no chromium on PATH, and $1."
    exit 0
}

command -v apt-get >/dev/null || left_out "no apt-get to install it with"
if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    left_out "no right to install it (sudo apt-get install chromium)"
fi
echo "Installing chromium, once: the page is tested in it ..."
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{ $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends chromium; } >"$log" 2>&1 ||
    left_out "apt-get could not install it: $(tail -n 1 "$log")"
rm -f "$log"
