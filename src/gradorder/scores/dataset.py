"""Score a whole dataset at the current weights."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from gradorder import checks
from gradorder.batches import Batch, num_examples, to_device
from gradorder.checks import widened
from gradorder.norms.model_state import device_of, eval_mode, is_sharded, unwrapped
from gradorder.ranks import Ranks

Score = Callable[[nn.Module, Batch], torch.Tensor]
"""One number per example of a batch at the current weights, shape (B,)."""


def score_dataset(
    model: nn.Module,
    dataset: Dataset[Any],
    score: Score,
    *,
    batch_size: int = 512,
    num_workers: int = 0,
    collate_fn: Callable[[list[Any]], Batch] | None = None,
    progress: bool = False,
) -> torch.Tensor:
    """Score every example of a map-style dataset; returns shape (N,), in the order of the dataset.

    The model and the random state are restored, so scoring changes nothing in a training run. Batches are moved to the
    model's device, where the result stays.

    With several processes (torch.distributed) call it on all of them. Each process scores some of the batches, and all
    processes get all scores. The batches do not depend on the number of processes, so the scores do not either.

    Args:
        model: scored at its current weights, in eval mode.
        dataset: anything with `__len__` and `__getitem__`.
        score: any score of this library, or a function `(model, batch) -> (B,)`.
        batch_size: examples per scoring batch, independent of the training batch. The default was within a fifth of
            the best for a small and for a convolutional network (`benchmarks/score_dataset.py`).
        num_workers: as in `DataLoader`.
        collate_fn: as in `DataLoader`.
        progress: show a progress bar (needs tqdm: `pip install "gradorder[progress]"`).

    Raises:
        IterableDatasetError: the dataset is iterable-style or has no length.
        ValueError: the score does not return one number per example.
        RankError: scoring failed on another process.

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
    ranks = Ranks.of_process_group()
    ranks.agree("what score_dataset is called for", num_examples=length, batch_size=batch_size)
    batches = [range(start, min(start + batch_size, length)) for start in range(0, length, batch_size)]
    own = batches[ranks.rank :: ranks.num]
    indices = torch.cat([torch.arange(0), *(torch.arange(batch.start, batch.stop) for batch in own)])
    with ranks.failing_together("score_dataset"):
        # Parts of a sharded model are fetched from the other processes: all must run as many passes.
        num_extra = -(-len(batches) // ranks.num) - len(own) if is_sharded(model) else 0
        loader = DataLoader(
            dataset,
            batch_sampler=_Lists(own + batches[:1] * num_extra),
            num_workers=num_workers,
            collate_fn=collate_fn,
        )
        shown = _shown(loader) if progress and ranks.rank == 0 else loader
        scored = _joined(_scored(unwrapped(model), shown, score)[: len(own)], device_of(model))
        if len(scored) != len(indices):
            raise ValueError(f"dataset must give every example asked for, got {len(scored)} of {len(indices)}")
    indices, scored = ranks.gathered(indices, scored)
    in_order = torch.empty_like(scored)
    in_order[indices.to(scored.device)] = scored
    return in_order


@dataclass(frozen=True)
class _Lists:
    """Ranges, each turned into a list when it is used."""

    ranges: list[range]

    def __iter__(self) -> Iterator[list[int]]:
        return map(list, self.ranges)

    def __len__(self) -> int:
        return len(self.ranges)


def _scored(model: nn.Module, batches: Iterable[Batch], score: Score) -> list[torch.Tensor]:
    device = device_of(model)
    scores = []
    with eval_mode(model):
        for batch in batches:
            on_device = to_device(batch, device)
            scores.append(checks.per_example("score", score(model, on_device), num_examples(on_device)).detach())
    return scores


def _joined(scores: list[torch.Tensor], device: torch.device) -> torch.Tensor:
    """One tensor of float32 or better, empty if this process had no batch."""
    return torch.cat([widened(part) for part in scores]) if scores else torch.empty(0, device=device)


def _shown(loader: DataLoader[Any]) -> Iterable[Batch]:
    try:
        from tqdm.auto import tqdm  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('progress=True needs tqdm: pip install "gradorder[progress]"', name="tqdm") from error
    shown: Iterable[Batch] = tqdm(loader, desc="scoring", unit="batch", leave=False)
    return shown
