"""SST-2: does a phrase from a film review speak well of the film? Words as numbers, in the user's own files.

The Stanford Sentiment Treebank (Socher et al., "Recursive Deep Models for Semantic Compositionality Over a Sentiment
Treebank", 2013) with two classes, as lines of phrase, tab, 0 or 1. What is measured on is the file `dev`, 6,735 phrases
where the file `test` has 872 sentences: accuracy on those has a standard error of 1.3 points, which would hide what is
looked for. `dev` is a random part of the phrases, so a phrase of it and one that is trained on may come from the same
sentence: its accuracy says how well methods learn the same thing, not how well they would do on new films.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.data.files import found, read_text
from gradorder_lab.errors import DatasetFileError

PHRASE_LENGTH = 56
"""Words of a phrase; the longest known has 52."""

NUM_WORDS = 15_000
"""Words, the most frequent of the training part; with the two numbers below that stand for none of them."""

PADDING, UNKNOWN = 0, 1
_FIRST_WORD = 2
_FIRST_LINE = "sentence\tlabel"
_LABELS = ("0", "1")


def sst2(directory: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Train and test set, and the number of classes: words int64 (N, 56) below 15,000, padded with 0 at the end."""
    folder = "sst2"
    paths = [
        found(directory, folder, f"{part}.tsv", "SST-2, lines of phrase, tab, 0 or 1,") for part in ("train", "dev")
    ]
    train, test = (_phrases(path) for path in paths)
    numbers = _numbers_of_words([words for words, _ in train])
    return _tensors(train, numbers), _tensors(test, numbers), len(_LABELS)


def _phrases(path: Path) -> list[tuple[list[str], int]]:
    """Words and label of every line."""
    lines = read_text(path).splitlines()
    if not lines or lines[0] != _FIRST_LINE:
        raise DatasetFileError(path, f"must start with the line {_FIRST_LINE!r}, got {lines[0] if lines else ''!r}")
    phrases = []
    for number, line in enumerate(lines[1:], start=2):
        text, _, label = line.rpartition("\t")
        if label not in _LABELS:
            raise DatasetFileError(path, f"line {number} must end with a tab and 0 or 1, got {line!r}")
        phrases.append((text.split()[:PHRASE_LENGTH], int(label)))
    if not phrases:
        raise DatasetFileError(path, "holds no phrases")
    return phrases


def _numbers_of_words(phrases: Sequence[Sequence[str]]) -> dict[str, int]:
    """Word -> number, the most frequent first, equally frequent ones by the alphabet."""
    counts = Counter(word for words in phrases for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: NUM_WORDS - _FIRST_WORD]
    return {word: number for number, word in enumerate(ranked, start=_FIRST_WORD)}


def _tensors(phrases: Sequence[tuple[list[str], int]], numbers: dict[str, int]) -> LabelledTensors:
    tokens = np.full((len(phrases), PHRASE_LENGTH), PADDING)
    for row, (words, _) in zip(tokens, phrases, strict=True):
        row[: len(words)] = [numbers.get(word, UNKNOWN) for word in words]
    return LabelledTensors(torch.from_numpy(tokens), torch.tensor([label for _, label in phrases]))
