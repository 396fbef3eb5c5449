from collections import UserDict, defaultdict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from gradorder.batches import num_examples, row_tensors, take, to_device, with_row_tensors

Pair = namedtuple("Pair", ["x", "y"])


@dataclass(frozen=True)
class Example:
    x: torch.Tensor
    scale: float


ROWS = torch.arange(6).reshape(3, 2)
PICK = torch.tensor([2, 0])

BATCHES = [
    ROWS,
    (ROWS, torch.arange(3)),
    [ROWS, torch.arange(3)],
    Pair(ROWS, torch.arange(3)),
    {"x": ROWS, "y": torch.arange(3)},
    UserDict({"x": ROWS}),
    {"x": {"deep": [ROWS, (ROWS,)]}, "scale": 2.0, "name": "all", "nothing": None, "shared": torch.tensor(7)},
    (ROWS, ["a", "b", "c"], [{"id": 1}, {"id": 2}, {"id": 3}]),
    (ROWS, np.arange(3)),
    Example(ROWS, 2.0),
    defaultdict(list, {"x": ROWS}),
    (ROWS, ("a", "b", "c")),
]


def expected(batch):
    if isinstance(batch, torch.Tensor):
        return batch if batch.ndim == 0 else batch[PICK]
    if isinstance(batch, np.ndarray):
        return batch[PICK.numpy()]
    if isinstance(batch, defaultdict):
        return defaultdict(batch.default_factory, {key: expected(value) for key, value in batch.items()})
    if isinstance(batch, dict | UserDict):
        return type(batch)({key: expected(value) for key, value in batch.items()})
    if isinstance(batch, Pair):
        return Pair(*map(expected, batch))
    if isinstance(batch, Example):
        return Example(expected(batch.x), batch.scale)
    if isinstance(batch, list | tuple):
        if all(not isinstance(value, torch.Tensor | np.ndarray | list | tuple) for value in batch):
            return type(batch)(batch[i] for i in PICK.tolist())
        return type(batch)(expected(value) for value in batch)
    return batch


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)
def test_takes_rows_of_every_part_in_the_same_structure(batch):
    assert num_examples(batch) == 3
    assert str(take(batch, PICK)) == str(expected(batch))
    assert type(take(batch, PICK)) is type(batch)
    assert num_examples(take(batch, PICK)) == 2
    assert str(to_device(batch, torch.device("cpu"))) == str(batch)
    doubled = with_row_tensors(batch, [2 * tensor for tensor in row_tensors(batch)])
    assert all(torch.equal(a, 2 * b) for a, b in zip(row_tensors(doubled), row_tensors(batch), strict=True))


def test_bad_batches_are_refused():
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        num_examples((ROWS, torch.arange(2)))
    with pytest.raises(ValueError, match=r"'x': int"):
        num_examples({"x": 1})
    with pytest.raises(TypeError, match="got set"):
        num_examples((ROWS, {1, 2}))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("image_size", [(224, 112), (0.5, 2.0), torch.Size([224, 112]), Pair(224, 112), (True, None)])
def test_a_tuple_of_numbers_belongs_to_the_whole_batch(image_size, size):
    batch = {"x": ROWS[:size], "image_size": image_size}
    assert num_examples(batch) == size
    assert take(batch, torch.tensor([1]))["image_size"] == image_size
