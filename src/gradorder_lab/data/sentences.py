"""Sentences with a class each, in the user's own files: banking77, TREC and CLINC150.

banking77: Casanueva et al., "Efficient Intent Detection with Dual Sentence Encoders" (2020). TREC: Li and Roth,
"Learning Question Classifiers" (2002). CLINC150: Larson et al., "An Evaluation Dataset for Intent Classification and
Out-of-Scope Prediction" (2019); queries that are out of scope are not used.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from gradorder_lab.data.examples import without_some
from gradorder_lab.data.files import found, read_text
from gradorder_lab.errors import DatasetFileError

NUM_TRAIN = 3000
"""Training sentences that are used of each dataset, a random part: a run is to take seconds on one core."""

Pairs = list[tuple[str, str]]
"""Text and name of the class."""


@dataclass(frozen=True)
class Sentences:
    """Texts and the class of each, as positions in the sorted names of the classes."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


def sentences(name: str, directory: Path | None) -> tuple[Sentences, Sentences, int]:
    """Return the training set, the test set and the number of classes."""
    train, test = READERS[name](directory)
    numbers = {label: number for number, label in enumerate(sorted({label for _, label in train}))}
    if unknown := {label for _, label in test} - set(numbers):
        raise DatasetFileError(Path(name), f"test classes must occur in the training set, got {min(unknown)!r}")
    if len(train) > NUM_TRAIN:
        kept, _ = without_some(len(train), len(train) - NUM_TRAIN)
        train = [train[index] for index in kept.tolist()]
    return _numbered(train, numbers), _numbered(test, numbers), len(numbers)


def _numbered(pairs: Pairs, numbers: Mapping[str, int]) -> Sentences:
    return Sentences(tuple(text for text, _ in pairs), tuple(numbers[label] for _, label in pairs))


def _banking77(directory: Path | None) -> Iterable[Pairs]:
    for part in ("train", "test"):
        path = found(directory, "banking77", f"{part}.csv", "banking77, columns text and category,")
        rows = list(csv.reader(StringIO(read_text(path))))
        if not rows or rows[0] != ["text", "category"] or any(len(row) != len(rows[0]) for row in rows):
            raise DatasetFileError(path, "must have the columns text and category")
        yield [(text, label) for text, label in rows[1:]]


def _trec(directory: Path | None) -> Iterable[Pairs]:
    for part in ("train", "test"):
        path = found(directory, "trec", f"{part}.txt", "TREC, lines of class, space, question,")
        lines = [line.partition(" ") for line in read_text(path).splitlines()]
        if not all(label.isdigit() and text for label, _, text in lines):
            raise DatasetFileError(path, "must hold lines of class, space, question")
        yield [(text, label) for label, _, text in lines]


def _clinc150(directory: Path | None) -> Iterable[Pairs]:
    path = found(directory, "clinc150", "data_full.json", "CLINC150, lists of text and intent,")
    try:
        content = json.loads(read_text(path))
        return [[(text, label) for text, label in content[part]] for part in ("train", "test")]
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetFileError(path, f"must hold lists train and test of text and intent: {error}") from error


READERS: Mapping[str, Callable[[Path | None], Iterable[Pairs]]] = {
    "banking77": _banking77,
    "trec": _trec,
    "clinc150": _clinc150,
}
"""Directory -> training set, test set."""
