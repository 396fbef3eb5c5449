"""The table of docs/zoo.md, made from a run: `python tests/support/zoo_table.py`."""

from pathlib import Path

from zoo import ARCHITECTURES
from zoo_verdicts import Verdict, verdict

TABLE = Path(__file__).resolve().parents[2] / "docs" / "zoo.md"
START = "| architecture |"
HEAD = f"""{START} `gradient_norms` | `observe_gradient_norms` | `LastLayerBound` |
|---|---|---|---|
"""


def line(name, words):
    return f"| {' | '.join([name, *words.all])} |\n"


def read():
    """What the committed table says of each architecture."""
    rows = TABLE.read_text(encoding="utf-8").split(HEAD)[1].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row]
    return {name: Verdict(*words) for name, *words in cells}


def write(found):
    """Keep what is said above the table."""
    before = TABLE.read_text(encoding="utf-8").split(START)[0]
    rows = (line(name, words) for name, words in found.items())
    TABLE.write_text(before + HEAD + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    write({name: verdict(architecture) for name, architecture in ARCHITECTURES.items()})
