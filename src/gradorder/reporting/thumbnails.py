"""An example's image as a PNG that stands in the page itself: written here, since torch and numpy have no PNG."""

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""Shape (H, W, 1) or (H, W, 3)."""

_CHANNELS = (1, 3)
_GREY, _COLOUR = 0, 2  # PNG's colour types


def image_of(example: Any) -> Pixels:  # noqa: ANN401 - whatever the dataset gives
    """The pixels of an image, or of a pair that begins with one; numbers that are not bytes are stretched to 0..255.

    Raises:
        TypeError: it is neither (C, H, W) nor (H, W, C) nor (H, W), with one or three channels.
    """
    given = example[0] if isinstance(example, tuple | list) else example
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
    return values if values.dtype == np.uint8 else _stretched(values)


def _stretched(values: npt.NDArray[Any]) -> Pixels:
    numbers = values.astype(np.float64)
    lowest, highest = numbers.min(), numbers.max()
    scaled = (numbers - lowest) / (highest - lowest) if highest > lowest else np.zeros_like(numbers)
    return np.round(255 * scaled).astype(np.uint8)


def as_data_uri(pixels: Pixels) -> str:
    """A PNG as an address that holds it whole."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")


def png(pixels: Pixels) -> bytes:
    """The file: signature, header, all rows compressed (each after the number of its filter, none), end."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY if channels == 1 else _COLOUR, 0, 0, 0)
    rows = np.insert(pixels.reshape(height, width * channels), 0, 0, axis=1)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
