"""The small data sets that are shipped with the package, one .xz file each (sources and licences: lab/NOTICE).

Inside: the labels of train and test, a byte each, then all images as `differences` leaves them.
"""

import lzma
from importlib.resources import files

import numpy as np
import torch

from gradorder_lab.data.files import LabelledImages, TrainTest
from gradorder_lab.data.sources import Source
from gradorder_lab.errors import DatasetError

_SIZES = {1: (28, 28), 3: (32, 32)}
"""Height and width of an image by its number of channels."""

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def read_embedded(source: Source) -> TrainTest:
    """Size "mini" of a data set that is shipped.

    Raises:
        DatasetError: the file is damaged or missing: the installation is broken.
    """
    path = files("gradorder_lab.data") / "embedded" / f"{source.name}.xz"
    try:
        return unpacked(path.read_bytes(), source)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise DatasetError(f"{path}: the installed file is damaged, install gradorder again ({error})") from error


def packed(splits: TrainTest) -> bytes:
    """Both splits as one .xz file."""
    images = torch.cat([splits.train.images, splits.test.images]).numpy()
    labels = torch.cat([splits.train.labels, splits.test.labels]).numpy().astype(np.uint8)
    # xz expects bytes that follow from the ones before and from their place; differences do neither.
    context = {"lc": 0, "pb": 0} if images.shape[1] > 1 else {}
    lzma2 = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, **context}
    return lzma.compress(labels.tobytes() + differences(images).tobytes(), filters=[lzma2])


def unpacked(content: bytes, source: Source) -> TrainTest:
    """What `packed` has packed.

    Raises:
        ValueError: another number of bytes than this data set has.
        EOFError, lzma.LZMAError: no whole .xz file.
    """
    num_examples = source.num_mini_train + source.num_mini_test
    num_channels = len(source.mean)
    shape = (num_examples, num_channels, *_SIZES[num_channels])
    data = np.frombuffer(lzma.decompress(content), np.uint8)
    labels = torch.from_numpy(data[:num_examples].astype(np.int64))
    images = torch.from_numpy(sums(data[num_examples:].reshape(shape)))
    cut = source.num_mini_train
    return TrainTest(LabelledImages(images[:cut], labels[:cut]), LabelledImages(images[cut:], labels[cut:]))


def differences(images: Bytes) -> Bytes:
    """Images (N, C, H, W) as xz packs them best, modulo 256; `sums` is the way back.

    Colour photographs: red and blue minus green, then each pixel minus its left neighbour, then minus the row above:
    a quarter smaller than without. Grey drawings on black: as they are, because xz finds their repetitions by itself.
    """
    if images.shape[1] == 1:
        return images
    coded = images.copy()
    coded[:, ::2] -= images[:, 1:2]
    coded[..., 1:] -= coded[..., :-1].copy()
    coded[..., 1:, :] -= coded[..., :-1, :].copy()
    return coded


def sums(coded: Bytes) -> Bytes:
    """Images out of `differences`, as a new array."""
    if coded.shape[1] == 1:
        return coded.copy()
    images: Bytes = coded.cumsum(axis=-2, dtype=np.uint8).cumsum(axis=-1, dtype=np.uint8)
    images[:, ::2] += images[:, 1:2]
    return images
