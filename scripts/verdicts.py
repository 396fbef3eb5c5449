# ruff: noqa: INP001 - a script: run by path
"""Put the verdicts of results/lab.parquet into the tables of README and docs/paper.md.

A line keeps its own words; the script names those whose verdict has changed, to be read again.

    python scripts/verdicts.py
"""

import re
import sys
from pathlib import Path

from gradorder_lab import paper
from gradorder_lab.runs import shipped

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^(\| (C\d+): .*? \| )([a-z ]*[a-z])( \(\d+ of \d+\))?", flags=re.MULTILINE)


def main() -> None:
    """Write both tables."""
    shown = {claim.name: (str(claim.verdict), claim.readings) for claim in paper.claims(shipped.shipped_summary())}
    for path in (ROOT / "README.md", ROOT / "docs" / "paper.md"):

        def current(found: re.Match[str], path: Path = path) -> str:
            verdict, (holds, counted) = shown[found[2]]
            line = f"{found[1]}{verdict}{f' ({holds} of {counted})' if counted else ''}"
            if line != found[0]:
                sys.stdout.write(f"{path.name}: {found[0]} -> {line.removeprefix(found[1])}\n")
            return line

        path.write_text(LINE.sub(current, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
