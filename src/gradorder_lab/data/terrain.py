"""A made table in the shape of forest cover data: which of seven kinds of forest grows on a patch of land?

Ten measured quantities, four one-hot areas and forty one-hot soils, 54 columns; seven classes of very different
sizes; labels by a fixed random forest of questions about the columns, a few of them wrong. Made from a fixed seed, so
that it is the same everywhere and needs no download.
"""

import numpy as np
import torch

from gradorder_lab.data.examples import LabelledTensors

NUM_CLASSES = 7
NUM_COLUMNS = 54
_NUM_MEASURED, _NUM_AREAS, _NUM_SOILS = 10, 4, 40
_NUM_TREES, _DEPTH = 40, 4
_WRONG = 0.03
_NUM_TRAIN, _NUM_TEST = 60_000, 20_000
_TERRAIN_SEED = 54


def terrain() -> tuple[LabelledTensors, LabelledTensors, int]:
    """Train and test set, and the number of classes."""
    table, labels = make(_NUM_TRAIN + _NUM_TEST)
    train, test = slice(0, _NUM_TRAIN), slice(_NUM_TRAIN, None)
    return LabelledTensors(table[train], labels[train]), LabelledTensors(table[test], labels[test]), NUM_CLASSES


def make(num_examples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Columns float32 (N, 54), measured ones with mean 0 and variance 1, and labels int64 (N,)."""
    rng = np.random.default_rng(_TERRAIN_SEED)
    mixing = rng.standard_normal((_NUM_MEASURED, _NUM_MEASURED)) / np.sqrt(_NUM_MEASURED)
    measured = rng.standard_normal((num_examples, _NUM_MEASURED)) @ (np.eye(_NUM_MEASURED) + mixing)
    measured = (measured - measured.mean(0)) / measured.std(0)
    # Areas and soils go with the first two measured quantities, as they do with height and slope.
    areas = _digitized(measured[:, 0] + 0.5 * rng.standard_normal(num_examples), _NUM_AREAS)
    soils = _digitized(measured[:, 1] + 0.5 * rng.standard_normal(num_examples), _NUM_SOILS)
    columns = np.hstack([measured, np.eye(_NUM_AREAS)[areas], np.eye(_NUM_SOILS)[soils]])
    votes = sum(_tree(columns, rng) for _ in range(_NUM_TREES))
    votes = votes / np.std(votes, axis=0) + np.linspace(1.5, -1.5, NUM_CLASSES)  # the last classes are rare
    labels = votes.argmax(1)
    is_wrong = rng.random(num_examples) < _WRONG
    labels[is_wrong] = rng.integers(0, NUM_CLASSES, is_wrong.sum())
    return torch.from_numpy(columns.astype(np.float32)), torch.from_numpy(labels.astype(np.int64))


def _digitized(values: np.ndarray, num_bins: int) -> np.ndarray:
    """The number of the bin of each value; bins of about equal size."""
    return np.searchsorted(np.quantile(values, np.linspace(0, 1, num_bins + 1)[1:-1]), values)


def _tree(columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Votes for the classes by the answers to a few questions: column above threshold or not."""
    asked = rng.integers(0, _NUM_MEASURED + _NUM_AREAS, _DEPTH)
    thresholds = rng.standard_normal(_DEPTH)
    leaf = ((columns[:, asked] > thresholds) @ (1 << np.arange(_DEPTH))).astype(np.int64)
    return rng.standard_normal((1 << _DEPTH, NUM_CLASSES))[leaf]
