# ruff: noqa: INP001, T201 - a script: run by path, it prints
"""Make the small data sets that are shipped with the package, out of the original files.

    python scripts/embed_datasets.py --data DIR            writes src/gradorder_lab/data/embedded/*.xz
    python scripts/embed_datasets.py --data DIR --check    says whether they hold what DIR gives

DIR holds MNIST, Fashion-MNIST and CIFAR-10 as `gradorder_lab.data.load` reads them. The shipped examples are the
first ones of each class, so that size "mini" is the same with and without the original files.
"""

import argparse
import sys
from pathlib import Path

import torch

from gradorder_lab.data import SOURCES, embedded
from gradorder_lab.data.files import LabelledImages, TrainTest
from gradorder_lab.data.images import class_balanced_indices
from gradorder_lab.data.sources import Source
from gradorder_lab.errors import DatasetError

FOLDER = Path(__file__).parents[1] / "src" / "gradorder_lab" / "data" / "embedded"
MAX_TOTAL_BYTES = 9_000_000


def main() -> None:
    """Write the files, or compare with them."""
    parser = argparse.ArgumentParser(description="Make the small data sets that are shipped with the package.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="directory of the original files")
    parser.add_argument("--check", action="store_true", help="write nothing: compare what is shipped with DIR")
    arguments = parser.parse_args()
    act = check if arguments.check else write
    try:
        for source in SOURCES.values():
            if source.is_embedded:
                act(source, mini(source, arguments.data))
    except DatasetError as error:
        sys.exit(f"embed_datasets: {error}")
    total = sum(path.stat().st_size for path in FOLDER.glob("*.xz"))
    print(f"together {total:,} bytes")
    if total > MAX_TOTAL_BYTES:
        sys.exit(f"embed_datasets: at most {MAX_TOTAL_BYTES:,} bytes may be shipped")


def mini(source: Source, data: Path) -> TrainTest:
    """The examples of size "mini"."""
    complete = source.files.read(data)
    if complete is None:
        raise DatasetError(f"--data: {data} does not hold {source.title}")
    train = first_of_each_class(complete.train, source, source.num_mini_train)
    return TrainTest(train, first_of_each_class(complete.test, source, source.num_mini_test))


def first_of_each_class(split: LabelledImages, source: Source, num_examples: int) -> LabelledImages:
    """Equally many of each class, in the order of the file."""
    chosen = class_balanced_indices(split.labels, len(source.class_names), num_examples)
    return LabelledImages(split.images[chosen], split.labels[chosen])


def write(source: Source, splits: TrainTest) -> None:
    """Pack one data set into its file."""
    content = embedded.packed(splits)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{source.name}.xz").write_bytes(content)
    print(f"{source.title}: {len(content):,} bytes")


def check(source: Source, splits: TrainTest) -> None:
    """Compare one data set with its file."""
    path = FOLDER / f"{source.name}.xz"
    pairs = zip(embedded.unpacked(path.read_bytes(), source), splits, strict=True)
    same = all(torch.equal(x, y) for shipped, original in pairs for x, y in zip(shipped, original, strict=True))
    if not same:
        raise DatasetError(f"{path} holds other examples than the original files")
    print(f"{source.title}: the same examples")


if __name__ == "__main__":
    main()
