"""Advice: what `go.recommended` would skip now, from the losses of a random sample of the examples."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, Subset

from gradorder import checks
from gradorder.batches import Batch
from gradorder.diagnostics.measured import MEASURED, Measured
from gradorder.losses import Losses
from gradorder.orderings import Unlearned
from gradorder.orderings.ordering import Request
from gradorder.sampler.labels import Classes
from gradorder.scores import Loss, score_dataset

_QUANTILE = 1.96
"""Of the normal distribution, for 95% intervals."""

_NUM_ALIKE = 3

_ROUNDING = 2.0**-20
"""The share of a rule must be below 1."""


@dataclass(frozen=True)
class Share:
    """A share of the examples, with its 95% interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, count: int, total: int, population: int, factor: float = 1.0) -> "Share":
        """Return `factor` times count / total, with Wilson's interval; exact if all examples were looked at."""
        part = count / total
        if total == population:
            return cls(factor * part, factor * part, factor * part)
        z2 = _QUANTILE**2 / total
        centre = (part + z2 / 2) / (1 + z2)
        margin = _QUANTILE * math.sqrt(part * (1 - part) / total + z2 / (4 * total)) / (1 + z2)
        return cls(factor * part, factor * max(0.0, centre - margin), factor * min(1.0, centre + margin))

    def __str__(self) -> str:
        return f"{self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


@dataclass(frozen=True)
class Advice:
    """What `go.recommended` would do with this model and dataset now; `print(advice)` says it in words.

    Args:
        num_examples: the number of examples whose losses were computed.
        skipped: the share of the next epoch that would be skipped.
        mislabelled: the share of labels that look wrong: their loss is above that of guessing. None if that cannot be
            said: the loss is not the cross-entropy, there are no classes, or the model does not fit most examples yet.
        classes: the number of classes by which batches are stratified; None if they are not.
        source: the origin of their labels.
    """

    num_examples: int
    skipped: Share
    mislabelled: Share | None
    classes: int | None
    source: str | None

    @property
    def alike(self) -> tuple[Measured, ...]:
        """The measured tasks on which the most similar share would be skipped halfway through a plain run."""
        return tuple(sorted(MEASURED, key=lambda task: abs(task.skipped - self.skipped.value))[:_NUM_ALIKE])

    def __str__(self) -> str:
        lines = [
            f"From the losses of {self.num_examples:,} examples at the current weights (95% intervals):",
            f"- go.recommended would skip {self.skipped} of the next epoch.",
            f"- Labels that look wrong: {self.mislabelled or 'cannot say'}.",
            "- Batches are not stratified: no labels were found."
            if self.classes is None
            else f"- Batches are stratified by the {self.classes} classes of {self.source}.",
            "Measured on small tasks on which it would skip a similar share halfway through a plain run:",
            *(f"- {task}" for task in self.alike),
            "The share grows as training fits more examples. Before training, it says nothing about later epochs.",
        ]
        return "\n".join(lines)


def advise(
    model: nn.Module,
    dataset: Dataset[Any],
    *,
    losses: Losses | None = None,
    labels: Any = "auto",  # noqa: ANN401 - anything array-like
    num_examples: int = 2000,
    batch_size: int = 512,
    collate_fn: Callable[[list[Any]], Batch] | None = None,
    seed: int = 0,
) -> Advice:
    """Return what `go.recommended` would skip now: its own rule, applied to a random sample of the examples.

    It computes the losses of the sample at the current weights, with the model in eval mode. The model and the global
    random state are left as they were. Ask during training, not before it: an untrained model fits nothing.

    Args:
        model: the model, at the weights of interest.
        dataset: a map-style dataset.
        losses: a function `(model, batch) -> (B,)`; cross-entropy of `(inputs, targets)` if not given.
        labels: as in `go.recommended`.
        num_examples: the size of the sample.
        batch_size: the batch size of the forward passes.
        collate_fn: as in `DataLoader`.
        seed: the seed of the sample.

    Raises:
        IterableDatasetError: the dataset is iterable-style or has no length.
        NonFiniteScoresError: a loss is NaN or infinite.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> dataset = TensorDataset(torch.randn(300, 4), torch.randint(3, (300,)))
        >>> advice = advise(nn.Linear(4, 3), dataset)
        >>> advice.num_examples, advice.classes
        (300, 3)
    """
    length = checks.map_style_length("dataset", dataset)
    size = min(length, checks.integer("num_examples", num_examples, minimum=1))
    rng = np.random.default_rng(np.random.SeedSequence(checks.integer("seed", seed, minimum=0)))
    sample = np.sort(rng.choice(length, size, replace=False)).tolist()
    values = score_dataset(model, Subset(dataset, sample), Loss(losses), batch_size=batch_size, collate_fn=collate_fn)
    rule = Unlearned()
    classes = Classes.of(labels, dataset, length)
    return Advice(
        num_examples=size,
        skipped=_skipped(values, rule, length),
        mislabelled=None if losses is not None else _mislabelled(values, classes, length),
        classes=None if classes is None else len(classes.counts),
        source=None if classes is None else classes.source,
    )


def _skipped(losses: torch.Tensor, rule: Unlearned, length: int) -> Share:
    """Return the share of the examples that the rule skips.

    The sample has two errors: its share of fitted examples, and its mean loss, on which the bound of the rule depends.
    The second is the larger one if few examples have most of the loss. So the ends of the interval are those of
    Wilson's intervals at both ends of the interval of the mean.
    """
    size, mean = len(losses), float(losses.double().mean())
    error = _QUANTILE * float(losses.double().std(correction=0)) * math.sqrt((1 - size / length) / size)
    relative = error / mean if mean > 0 else 0.0
    low, middle, high = (
        Share.of(_num_fitted(losses, rule, factor), size, length, factor=1 - 1 / rule.every)
        for factor in (1 - relative, 1.0, 1 + relative)
    )
    return Share(middle.value, low.low, high.high)


def _num_fitted(losses: torch.Tensor, rule: Unlearned, factor: float) -> int:
    """Return the number of fitted examples if the mean loss were larger by this factor."""
    share = min(rule.share * factor, 1 - _ROUNDING)
    if share <= 0:
        return 0
    request = Request(0, len(losses), torch.Generator(), scores=losses)
    return int(replace(rule, share=share).is_fitted(request).sum())


def _mislabelled(losses: torch.Tensor, classes: Classes | None, length: int) -> Share | None:
    """Return the share of cross-entropies above ln C, the loss of guessing, if most losses are below half of it."""
    if classes is None:
        return None
    guessing = math.log(len(classes.counts))
    if float(losses.median()) > guessing / 2:
        return None
    return Share.of(int((losses > guessing).sum()), len(losses), length)
