"""The methods of the field, each as the parts of the library that a training loop uses it by."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

import gradorder as go
from gradorder.losses import Losses
from gradorder.selection import Selection
from gradorder_lab.benchmark import own, peers
from gradorder_lab.training.network import Strategy

FORWARD = 1 / 3
"""The cost of a forward pass, where forward and backward together are 1."""

NORM = 0.8
"""The cost of an exact gradient norm, about as `benchmarks/gradient_norm.py` measures it."""

_BLOCK = 100
_HALF = 0.5
_INFO_EPOCH = 0.7  # of a complete one, about: half of those below the mean are dropped, fewer at the end
_PRESAMPLED = 3  # times the batch size


@dataclass(frozen=True)
class Circumstances:
    """What a method is built for.

    Args:
        labels: of the training set.
        batch_size: of one training step.
        epochs: of plain training.
        budget: how much of plain training's cost may be spent.
        seed: of the order.
        losses: of the user's own; None for cross-entropy.
    """

    labels: torch.Tensor
    batch_size: int
    epochs: int
    budget: float
    seed: int
    losses: Losses | None = None

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes, as `Task.has_classes` says for all of a task."""
        return self.losses is None and self.labels.ndim == 1

    def sampler(
        self, ordering: go.Ordering, *, batch_size: int | None = None, balanced: bool = False
    ) -> go.OrderedSampler:
        """A sampler for all of the training set."""
        size, labels = batch_size or self.batch_size, self.labels if balanced else None
        return go.OrderedSampler(len(self.labels), size, ordering=ordering, labels=labels, seed=self.seed)


@dataclass(frozen=True)
class Method:
    """A method by name.

    Args:
        build: its parts.
        epoch_cost: of one epoch, in epochs of plain training: how many epochs a budget buys. None: the method itself
            fits its epochs to the budget.
        needs_classes: it balances classes or looks at logits: not for losses of the user's own, nor for text.
    """

    build: Callable[[Circumstances], Strategy]
    epoch_cost: float | None = 1.0
    needs_classes: bool = False

    def length(self, epochs: int, budget: float) -> float:
        """The epochs, whole or not, that cost `budget` times as much as `epochs` of plain training."""
        if self.epoch_cost is None:
            return float(epochs)
        return round(budget * epochs / self.epoch_cost, 9)  # 7 where the product is 7.000000000000001


def _plain(ordering: go.Ordering, *, balanced: bool = False) -> Method:
    return Method(lambda given: Strategy(given.sampler(ordering, balanced=balanced)), needs_classes=balanced)


def _balanced(kind: Literal["mean", "pair"]) -> Method:
    return Method(lambda given: Strategy(given.sampler(go.GradientBalancing(kind)), gradients=True), needs_classes=True)


def _selected(
    build: Callable[[Circumstances], Selection],
    epoch_cost: float,
    presampled: int = 1,
    *,
    is_weighted: bool = False,
    needs_classes: bool = False,
) -> Method:
    return Method(
        lambda given: Strategy(
            given.sampler(go.Shuffled(), batch_size=presampled * given.batch_size),
            select=build(given),
            weighted=is_weighted,
        ),
        epoch_cost,
        needs_classes,
    )


def _sorted_first(keep: float) -> Method:
    """Algorithm 3: sorted by all exact norms before each epoch; dealt out, as sorted batches do not train."""

    def build(given: Circumstances) -> Strategy:
        sampler = go.OrderedSampler(
            len(given.labels),
            given.batch_size,
            ordering=go.Descending(),
            labels=given.labels if given.has_classes else None,
            layout="dealt",
            keep=keep,
            seed=given.seed,
        )
        return Strategy(sampler, score=go.GradientNorm(given.losses))

    return Method(build, keep + NORM)


def _recommended(given: Circumstances, *, balanced: bool) -> Strategy:
    """Without a budget of its own: a shorter run, in which it leaves out what is learned."""
    sampler = go.recommended(
        len(given.labels),
        given.batch_size,
        epochs=math.ceil(METHODS[RECOMMENDED].length(given.epochs, given.budget)),
        budget=None,
        labels=given.labels if balanced else None,
        seed=given.seed,
    )
    return Strategy(sampler, remembers=True)


def _recommended_within(given: Circumstances) -> Strategy:
    """All epochs, shortened to the budget."""
    sampler = go.recommended(
        len(given.labels), given.batch_size, epochs=given.epochs, budget=given.budget, seed=given.seed
    )
    return Strategy(sampler, remembers=True)


def _info_batch(given: Circumstances) -> Strategy:
    epochs = math.ceil(METHODS["InfoBatch"].length(given.epochs, given.budget))
    return Strategy(given.sampler(go.InfoBatch(epochs)), remembers=True, weighted=True)


def _rcap(given: Circumstances) -> Strategy:
    return Strategy(given.sampler(peers.Rcap(given.labels)), remembers=True)


def _top_losses(given: Circumstances) -> Strategy:
    return Strategy(given.sampler(go.Shuffled()), top=go.TopLosses(given.batch_size))


BASELINE = "random reshuffling"
RECOMMENDED = "recommended"
BALANCED = "recommended balanced"
FIXED_BUDGET = "recommended fixed budget"
RANDOM_BALANCED = "random balanced"
"""Balanced: with labels, for class-balanced batches."""

METHODS: Mapping[str, Method] = {
    BASELINE: _plain(go.Shuffled()),
    RECOMMENDED: Method(partial(_recommended, balanced=False)),
    BALANCED: Method(partial(_recommended, balanced=True), needs_classes=True),
    FIXED_BUDGET: Method(_recommended_within, None),
    RANDOM_BALANCED: _plain(go.Shuffled(), balanced=True),
    "shuffle once": _plain(go.ShuffledOnce()),
    "incremental": _plain(go.Sequential()),
    "with replacement": _plain(go.WithReplacement()),
    "paired reversal": _plain(go.FlipFlop(go.Shuffled())),
    "block reshuffling": _plain(go.BlockShuffled(_BLOCK)),
    "GraB mean": _balanced("mean"),
    "GraB pairs": _balanced("pair"),
    "InfoBatch": Method(_info_batch, _INFO_EPOCH),
    "Ordered SGD": Method(_top_losses, needs_classes=True),
    "datacull RCAP": Method(_rcap, peers.RCAP_KEPT, needs_classes=True),
    "importance sampling": _selected(
        lambda given: go.ImportanceSampling(given.batch_size, seed=given.seed),
        FORWARD,
        _PRESAMPLED,
        is_weighted=True,
        needs_classes=True,
    ),
    "selective backprop": _selected(
        lambda given: go.SelectiveBackprop(seed=given.seed, score=go.Loss(given.losses)), FORWARD + _HALF
    ),
    "smallest loss": _selected(lambda given: go.SmallestLoss(2, score=go.Loss(given.losses)), FORWARD + _HALF),
    "paper: sort first": _sorted_first(1.0),
    "paper: sort first half": _sorted_first(_HALF),
    "paper: sort within": _selected(
        lambda given: go.KeepHardest(_HALF, score=go.GradientNorm(given.losses)), NORM + _HALF
    ),
    "paper: within by error": _selected(
        lambda _: go.KeepHardest(_HALF, score=go.LogitError()), FORWARD + _HALF, needs_classes=True
    ),
}
"""Sort first is dealt over the batches: contiguous, it does not train from the first epoch on (see docs/neural.md)."""


def named(name: str) -> Method:
    """A method of the list, or an ordering of the user's own, `module:name` as `own.marked` gives it."""
    if name in METHODS:
        return METHODS[name]
    rule = own.ordering(name)
    # Losses of the training steps are its scores; weights are ones unless it gives some.
    return Method(lambda given: Strategy(given.sampler(rule), remembers=rule.needs_scores, weighted=True))


CORE = (BASELINE, RECOMMENDED, BALANCED, RANDOM_BALANCED, "InfoBatch", "Ordered SGD")
"""What runs on every task. Balance is there without our order, too, so that it is not counted as order."""
