"""A report as one HTML file with thumbnails. The file loads nothing from the network."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_STYLE = """
body { font: 16px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
ul { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); }
ul { list-style: none; padding: 0; }
img { image-rendering: pixelated; width: 100%; }
dl { display: grid; font-size: 0.8rem; grid-template-columns: auto 1fr; gap: 0 0.5rem; margin: 0; }
dt { color: #595959; }
dd { margin: 0; }
"""
_TITLE = "Data report"
_NO_PILLOW = (
    "<p>Pillow is not installed, so this page has no images. Install it with <code>pip install pillow</code>.</p>"
)
_LARGEST: Final = 256  # pixels per side of a thumbnail
_CHANNELS = (1, 3)


@dataclass(frozen=True)
class Card:
    """One example on the page: its index, its image as a data URI (None without Pillow), and its facts."""

    example: int
    image: str | None
    facts: Mapping[str, str]


def page(summary: str, sections: Mapping[str, Sequence[Card]]) -> str:
    """Return the HTML of the whole page."""
    has_images = all(card.image is not None for cards in sections.values() for card in cards)
    body = "\n".join(_section(title, cards) for title, cards in sections.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{_TITLE}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{_TITLE}</h1>
<pre>{escape(summary)}</pre>
{"" if has_images else _NO_PILLOW}
{body}
</body>
</html>
"""


def _section(title: str, cards: Sequence[Card]) -> str:
    items = "\n".join(map(_item, cards)) or "<li>none</li>"
    return f"<section>\n<h2>{escape(title.capitalize())}</h2>\n<ul>\n{items}\n</ul>\n</section>"


def _item(card: Card) -> str:
    facts = {"example": str(card.example), **card.facts}
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    image = "" if card.image is None else f'<img src="{card.image}" alt="example {card.example}">'
    return f"<li>{image}<dl>{rows}</dl></li>"


def thumbnail(example: Any) -> str | None:  # noqa: ANN401 - any example of a dataset
    """Return the image of an example, or of a pair that begins with one, as a PNG in a data URI; None without Pillow.

    Values that are not bytes are stretched to 0..255.

    Raises:
        TypeError: the example is neither a Pillow image nor an array (C, H, W), (H, W, C) or (H, W) with one or three
            channels.
    """
    try:
        from PIL import Image  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return None
    given = example[0] if isinstance(example, tuple | list) else example
    image = given.convert("RGB") if isinstance(given, Image.Image) else Image.fromarray(_pixels(given))
    image.thumbnail((_LARGEST, _LARGEST))
    file = io.BytesIO()
    image.save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _pixels(given: Any) -> npt.NDArray[np.uint8]:  # noqa: ANN401 - any example of a dataset
    """Return the bytes of an image, shape (H, W) for one channel or (H, W, 3)."""
    values = np.asarray(given)
    if values.ndim == 2:  # noqa: PLR2004 - height, width
        values = values[..., None]
    elif values.ndim == 3 and values.shape[0] in _CHANNELS:  # noqa: PLR2004 - with channels
        values = values.transpose(1, 2, 0)
    if values.ndim != 3 or values.shape[2] not in _CHANNELS or values.dtype.kind not in "biuf":  # noqa: PLR2004
        raise TypeError(
            "dataset must hold images, as (C, H, W), (H, W, C) or (H, W) with one or three channels, got "
            f"{type(given).__name__} of shape {values.shape}"
        )
    pixels = values if values.dtype == np.uint8 else _stretched(values)
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels


def _stretched(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    numbers = values.astype(np.float64)
    lowest, highest = numbers.min(), numbers.max()
    scaled = (numbers - lowest) / (highest - lowest) if highest > lowest else np.zeros_like(numbers)
    return np.round(255 * scaled).astype(np.uint8)
