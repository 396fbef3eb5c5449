#!/bin/sh
# The browser that the tests of the page run in: Debian's chromium. Nothing is done where one is on PATH; where none can
# be installed the tests of the page say so and are skipped.
set -u

if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "No chromium on PATH, and no apt-get to install it with: the page's tests in a browser will be skipped." >&2
    exit 0
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "No chromium on PATH, and no right to install it: the page's tests in a browser will be skipped." >&2
    echo "To have them: sudo apt-get install chromium" >&2
    exit 0
fi
echo "Installing chromium, once: the page is tested in it ..."
export DEBIAN_FRONTEND=noninteractive
if ! { $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null; }; then
    echo "chromium could not be installed: the page's tests in a browser will be skipped." >&2
fi
exit 0
