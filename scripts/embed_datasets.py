# ruff: noqa: INP001 - a script: run by path
"""Make the small data sets that are shipped with the package, out of the original files.

    python scripts/embed_datasets.py DIR        writes src/gradorder_lab/data/shipped/*.npz

DIR holds MNIST and Fashion-MNIST as `gradorder_lab.data.load` reads them. The shipped examples are the first ones of
each class, without any change to an image or a label.
"""

import sys
from pathlib import Path

import numpy as np

from gradorder_lab.data import SOURCES, load

FOLDER = Path(__file__).parents[1] / "src" / "gradorder_lab" / "data" / "shipped"


def main() -> None:
    """Write one file for each data set that has a licence."""
    for name, source in SOURCES.items():
        if source.is_embedded:
            train, test = load(name, data_dir=sys.argv[1], size="paper", download=False)
            splits = {"train": train.subset(source.num_mini_train), "test": test.subset(source.num_mini_test)}
            images = {f"x_{part}": split.images.squeeze(1).numpy() for part, split in splits.items()}
            labels = {f"y_{part}": split.labels.numpy().astype(np.uint8) for part, split in splits.items()}
            np.savez_compressed(FOLDER / f"{name}.npz", allow_pickle=False, **images, **labels)


if __name__ == "__main__":
    main()
