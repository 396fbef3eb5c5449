"""The page of thumbnails: one HTML file, with nothing to fetch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
body { font: 16px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
ul { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); }
ul { list-style: none; padding: 0; }
img { image-rendering: pixelated; width: 100%; }
dl { display: grid; font-size: 0.8rem; grid-template-columns: auto 1fr; gap: 0 0.5rem; margin: 0; }
dt { color: #595959; }
dd { margin: 0; }
"""


@dataclass(frozen=True)
class Shown:
    """One example on the page: its number, its image as an address, and what there is to say about it."""

    example: int
    image: str
    told: Mapping[str, str]


def page(summary: str, sections: Mapping[str, Sequence[Shown]]) -> str:
    """The whole file."""
    parts = "\n".join(_section(title, shown) for title, shown in sections.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>What training has found out about the data</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>What training has found out about the data</h1>
<pre>{escape(summary)}</pre>
{parts}
</body>
</html>
"""


def _section(title: str, shown: Sequence[Shown]) -> str:
    items = "\n".join(map(_item, shown)) or "<li>none</li>"
    return f"<section>\n<h2>{escape(title.capitalize())}</h2>\n<ul>\n{items}\n</ul>\n</section>"


def _item(shown: Shown) -> str:
    told = {"example": str(shown.example), **shown.told}
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in told.items())
    return f'<li><img src="{shown.image}" alt="example {shown.example}"><dl>{rows}</dl></li>'
