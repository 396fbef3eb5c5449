"""Tiny Shakespeare: plays as one text, in the user's own file; which character comes next?

An example is a window of 64 characters, its targets the characters that follow each of them, its loss their mean. The
last tenth of the text is for testing. Windows do not overlap.
"""

from pathlib import Path

import torch

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.data.files import found, read_text
from gradorder_lab.errors import DatasetFileError

WINDOW_LENGTH = 64
_TEST_SHARE = 10  # one part in


def tiny_shakespeare(directory: Path | None) -> tuple[LabelledTensors, LabelledTensors, int]:
    """Train and test set, and the number of characters: inputs and targets int64 (N, 64)."""
    path = found(directory, "tinyshakespeare", "input.txt", "Tiny Shakespeare, one text of 1,115,394 characters,")
    text = read_text(path)
    num_test = len(text) // _TEST_SHARE
    if num_test <= WINDOW_LENGTH:
        raise DatasetFileError(path, f"must have more than {_TEST_SHARE * WINDOW_LENGTH} characters, got {len(text)}")
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    codes = torch.tensor([numbers[character] for character in text])
    return _windows(codes[:-num_test]), _windows(codes[-num_test:]), len(characters)


def _windows(codes: torch.Tensor) -> LabelledTensors:
    end = (len(codes) - 1) // WINDOW_LENGTH * WINDOW_LENGTH
    return LabelledTensors(codes[:end].view(-1, WINDOW_LENGTH), codes[1 : end + 1].view(-1, WINDOW_LENGTH))
