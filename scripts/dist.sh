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

if unzip -p "$library" '*/METADATA' | grep -nE '\]\(|(src|href|srcset)="' | grep -vE '(\]\(|(src|href|srcset)=")(https?:|#)'; then
    echo "README's links above lead nowhere on the package index: see fancy-pypi-readme in pyproject.toml" >&2
    exit 1
fi

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
