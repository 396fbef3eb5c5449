"""Text that is on every machine with Python: which module of the standard library does a snippet come from?

The source files of fixed modules, cut into snippets of 64 characters; every fifth snippet is for testing. The text is
that of the running Python, so numbers compare only within one version of it.
"""

import importlib.util
from pathlib import Path

import torch

from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.errors import DatasetError

MODULES = (
    "_pydecimal",
    "argparse",
    "doctest",
    "inspect",
    "ipaddress",
    "mailbox",
    "pickletools",
    "subprocess",
    "tarfile",
    "turtle",
    "typing",
    "zipfile",
)
SNIPPET_LENGTH = 64
NUM_CHARACTERS = 128
_TEST_EVERY = 5


def snippets() -> tuple[LabelledTensors, LabelledTensors, int]:
    """Train and test set, and the number of classes: tokens int64 (N, 64) below 128."""
    tokens = [_snippets(_source(name)) for name in MODULES]
    is_test = [torch.arange(len(one)) % _TEST_EVERY == _TEST_EVERY - 1 for one in tokens]
    return _joined_snippets(tokens, [~mask for mask in is_test]), _joined_snippets(tokens, is_test), len(MODULES)


def _joined_snippets(tokens: list[torch.Tensor], masks: list[torch.Tensor]) -> LabelledTensors:
    chosen = [one[mask] for one, mask in zip(tokens, masks, strict=True)]
    labels = [torch.full((len(one),), number) for number, one in enumerate(chosen)]
    return LabelledTensors(torch.cat(chosen), torch.cat(labels))


def _snippets(text: str) -> torch.Tensor:
    codes = torch.tensor([min(ord(character), NUM_CHARACTERS - 1) for character in text])
    return codes[: len(codes) // SNIPPET_LENGTH * SNIPPET_LENGTH].view(-1, SNIPPET_LENGTH)


def _source(module: str) -> str:
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None or not Path(found.origin).is_file():
        raise DatasetError(f"the source of Python's module {module} is not on this machine")
    return Path(found.origin).read_text(encoding="utf-8")
