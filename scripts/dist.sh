#!/usr/bin/env bash
# Build both distributions, check them, and try the wheels in an empty environment: dist.sh DIRECTORY_OF_THE_TOOLS
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/$1
dist=$PWD/dist
empty=$PWD/.venv-empty
nowhere=$(mktemp -d)  # the wheels are tried where no source is
trap 'rm -rf "$nowhere"' EXIT

rm -rf "$dist" "$empty"
"$tools/python" -m build --outdir "$dist" .  # the sdist, and the wheel from the sdist
"$tools/python" -m build --outdir "$dist" lab
"$tools/twine" check --strict "$dist"/*
library=$(echo "$dist"/gradorder-*.whl)
lab=$(echo "$dist"/gradorder_lab-*.whl)

echo "Installing the library alone into .venv-empty ..."
"$tools/python" -m venv "$empty"
install=("$empty/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt)
"${install[@]}" "$library"
sed -n '/^```python$/,/^```$/{/^```$/q;/^```/!p}' README.md >"$nowhere/first_block.py"
test -s "$nowhere/first_block.py"
cd "$nowhere"
"$empty/bin/python" -W error first_block.py
"$empty/bin/python" -c 'import importlib.util as found; assert found.find_spec("gradorder_lab") is None'

echo "Installing the laboratory too ..."
cd "$OLDPWD"
"${install[@]}" "$library[lab]" "$lab"
"$empty/bin/python" -m pip check
cd "$nowhere"
"$empty/bin/gradorder" list
"$empty/bin/gradorder" report --out page
test -s page/index.html

ls -l "$dist"
echo "Both distributions are in dist/."

# What an upload to the package index still needs: known only when the repository has a public address.
for wheel in "$library" "$lab"; do
    unzip -p "$wheel" '*/METADATA' >"$nowhere/metadata"
    grep -q '^Project-URL: Repository' "$nowhere/metadata" ||
        echo "Missing before an upload: [project.urls] with the repository's address in $(basename "$wheel")." >&2
    links=$(grep -oE '\]\([^)]+\)' "$nowhere/metadata" | grep -cvE '^\]\((https?:|#)' || true)
    test "$links" = 0 ||
        echo "Missing before an upload: $links relative links in the README of $(basename "$wheel") must become absolute." >&2
done
