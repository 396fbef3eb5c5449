"""A whole data set scored at the current weights."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from gradorder import checks
from gradorder.batches import Batch, num_examples, to_device
from gradorder.scores.undisturbed import device_of, undisturbed

Score = Callable[[nn.Module, Batch], torch.Tensor]
"""One number per example of a batch at the current weights, shape (B,)."""


def score_dataset(
    model: nn.Module,
    dataset: Dataset[Any],
    score: Score,
    *,
    batch_size: int = 256,
    num_workers: int = 0,
    collate_fn: Callable[[list[Any]], Batch] | None = None,
    progress: bool = False,
) -> torch.Tensor:
    """The score of every example of a map-style dataset, shape (N,), in the order of the dataset.

    The model is left exactly as found and the random state too, so scoring changes nothing in a training run.
    Batches are moved to the model's device, where the result stays.

    Args:
        model: scored at its current weights, in eval mode.
        dataset: anything with `__len__` and `__getitem__`.
        score: any score of this library, or a function `(model, batch) -> (B,)`.
        batch_size: examples per scoring batch, which has nothing to do with the training batch; the default was within
            a fifth of the best for a small and for a convolutional network (`benchmarks/score_dataset.py`).
        num_workers: as in `DataLoader`.
        collate_fn: as in `DataLoader`.
        progress: show a progress bar (needs tqdm: `pip install "gradorder[progress]"`).

    Raises:
        IterableDatasetError: the dataset is iterable-style or has no length.
        ValueError: the score does not return one number per example.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> from gradorder import Loss
        >>> dataset = TensorDataset(torch.randn(10, 4), torch.randint(3, (10,)))
        >>> score_dataset(nn.Linear(4, 3), dataset, Loss()).shape
        torch.Size([10])
    """
    length = checks.map_style_length("dataset", dataset)
    checks.integer("batch_size", batch_size, minimum=1)
    checks.integer("num_workers", num_workers, minimum=0)
    loader = DataLoader(dataset, batch_size, num_workers=num_workers, collate_fn=collate_fn)
    device = device_of(model)
    scores = []
    with undisturbed(model):
        for batch in _shown(loader) if progress else loader:
            on_device = to_device(batch, device)
            scores.append(checks.per_example("score", score(model, on_device), num_examples(on_device)))
    scored = torch.cat([part.detach() for part in scores])
    if len(scored) != length:
        raise ValueError(f"dataset gave {len(scored)} examples, but its length is {length}")
    return scored


def _shown(loader: DataLoader[Any]) -> Iterable[Batch]:
    try:
        from tqdm.auto import tqdm  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('progress=True needs tqdm: pip install "gradorder[progress]"', name="tqdm") from error
    shown: Iterable[Batch] = tqdm(loader, desc="scoring", unit="batch", leave=False)
    return shown
