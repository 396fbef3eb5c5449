"""What the runs were fed with, as hashes: SHA-256 over the numbers of each data set as they are trained on."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gradorder_lab import convex, datasets
from gradorder_lab.convex import ConvexRecipe
from gradorder_lab.experiment import Experiment, Size
from gradorder_lab.neural.recipe import NeuralRecipe
from gradorder_lab.recipe import Setting

FACT = "sha256 of "
"""What the names of these facts begin with."""

_SEED = 0
"""The problems that are drawn at random are hashed as this seed draws them."""


def data_hashes(asked: Sequence[Experiment], size: Size, data: Path | None) -> dict[str, Setting]:
    """One fact per data set and problem of these experiments; none for data that is not there: the run will say so."""
    recipes = [recipe for experiment in asked for recipe in experiment.recipes(size)]
    problems = sorted({recipe.problem for recipe in recipes if isinstance(recipe, ConvexRecipe)})
    images = sorted({(recipe.data, recipe.size) for recipe in recipes if isinstance(recipe, NeuralRecipe)})
    found: dict[str, Setting] = {f"{FACT}{name}": problem_hash(name) for name in problems}
    for name, version in images:
        try:
            found[f"{FACT}{name}, {version}"] = image_hash(name, version, data)
        except datasets.DatasetError:
            continue
    return found


def problem_hash(name: str) -> str:
    """Of a convex problem: what its examples are."""
    problem = convex.PROBLEMS[name].of_seed(_SEED)
    return _digest([problem.directions, problem.targets])


def image_hash(name: str, size: datasets.Size, data: Path | None) -> str:
    """Of a data set: images and labels, train and test."""
    splits = datasets.load(name, data_dir=data, size=size)
    return _digest([array for split in splits for array in (split.images.numpy(), split.labels.numpy())])


def _digest(arrays: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
