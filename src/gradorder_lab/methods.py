"""The one table of methods, used by the paper's experiments, the benchmark and `compare`.

A new method is one entry of `METHODS`.
"""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Literal

import gradorder as go
from gradorder.scores import Score
from gradorder.selection import Selection
from gradorder_lab import published
from gradorder_lab.published.repb import REMARK as REPB_REMARK
from gradorder_lab.training import own
from gradorder_lab.training.method import Circumstances, Method, Strategy

FORWARD = 1 / 3
"""The cost of a forward pass, where forward and backward together are 1."""

NORM = 0.8
"""The cost of an exact gradient norm, about as `benchmarks/gradient_norm.py` measures it."""

_BLOCK = 100
_HALF = 0.5
_PRESAMPLED = 3  # times the batch size


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
        sampler = given.sampler(go.Descending(), balanced=given.has_classes, layout="dealt", keep=keep)
        return Strategy(sampler, score=go.GradientNorm(given.losses))

    return Method(build, keep + NORM)


def paper_method(treatment: str, sort: str, score: Score, keep: float) -> Method:
    """One of the paper's own methods, to the letter: a mini method has smaller batches, of the part that it keeps.

    Args:
        treatment: "full random", "full ordered", "mini random" or "mini ordered": all data or the kept part.
        sort: "within" each batch (Algorithm 4); "first" (Algorithm 3), with contiguous batches, or "first dealt";
            "none"; or "balanced", which is random with stratified batches.
        score: what the order is by.
        keep: q / S of the mini methods.
    """
    is_mini, is_ordered = treatment.startswith("mini"), treatment.endswith("ordered")

    def build(given: Circumstances) -> Strategy:
        if sort == "within":
            return Strategy(given.sampler(go.Shuffled()), select=go.KeepHardest(keep, score=score))
        sampler = given.sampler(
            go.Descending() if is_ordered else go.Shuffled(),
            batch_size=max(1, round(keep * given.batch_size)) if is_mini else None,
            balanced=is_ordered or sort == "balanced",
            layout="dealt" if sort == "first dealt" else "contiguous",
            keep=keep if is_mini else 1.0,
        )
        return Strategy(sampler, score=score if is_ordered else None)

    return Method(build)


def _recommended(given: Circumstances) -> Strategy:
    """The default as users have it, for `sampler.run()`; another budget than 1 is another number of epochs."""
    sampler = go.recommended(
        len(given.labels),
        given.batch_size,
        epochs=max(1, round(given.budget * given.epochs)),
        labels=given.labels if given.has_classes else None,
        seed=given.seed,
    )
    return Strategy(sampler, remembers=True, runs_by_progress=True)


def _recommended_within(given: Circumstances) -> Strategy:
    """All epochs, shortened to the budget."""
    sampler = go.recommended(
        len(given.labels), given.batch_size, epochs=given.epochs, budget=given.budget, seed=given.seed
    )
    return Strategy(sampler, remembers=True)


def _published(
    build: Callable[[Circumstances], go.Ordering],
    *,
    weighted: bool = False,
    rescores_skipped: bool = False,
    claim: str = "",
    remark: str = "",
) -> Method:
    """A published rule for as many of its own epochs as plain training has: shorter epochs are all that it saves."""

    def strategy(given: Circumstances) -> Strategy:
        sampler = given.sampler(build(given))
        return Strategy(sampler, remembers=sampler.needs_scores, weighted=weighted, rescores_skipped=rescores_skipped)

    return Method(strategy, claim=claim, remark=remark)


def _epochs(given: Circumstances) -> int:
    """The epochs of a published rule; the last one may be cut."""
    return math.ceil(METHODS[BASELINE].length(given.epochs, given.budget))


def _kakurenbo(given: Circumstances) -> Strategy:
    rule = published.Kakurenbo(_epochs(given))
    return Strategy(given.sampler(rule), remembers=True, rescores_skipped=True, rate_factor=rule.learning_rate_factor)


def _top_losses(given: Circumstances) -> Strategy:
    return Strategy(given.sampler(go.Shuffled()), top=go.TopLosses(given.batch_size))


BASELINE = "random reshuffling"
RECOMMENDED = "recommended"
FIXED_BUDGET = "recommended fixed budget"
RANDOM_STRATIFIED = "random stratified"
"""Random reshuffling with stratified batches, as the default has them where there are classes."""

METHODS: Mapping[str, Method] = {
    BASELINE: _plain(go.Shuffled()),
    RECOMMENDED: Method(_recommended),
    FIXED_BUDGET: Method(_recommended_within, None),
    RANDOM_STRATIFIED: _plain(go.Shuffled(), balanced=True),
    "shuffle once": _plain(go.ShuffledOnce()),
    "incremental": _plain(go.Sequential()),
    "with replacement": _plain(go.WithReplacement()),
    "paired reversal": _plain(go.FlipFlop(go.Shuffled())),
    "block reshuffling": _plain(go.BlockShuffled(_BLOCK)),
    "GraB mean": _balanced("mean"),
    "GraB pairs": _balanced("pair"),
    "InfoBatch": _published(
        lambda given: go.InfoBatch(_epochs(given)), weighted=True, claim="40% of the cost, without loss"
    ),
    "SeTa": _published(lambda given: published.SeTa(_epochs(given)), claim="up to 50% of the cost, without loss"),
    "IES": _published(
        lambda given: published.IES.for_classes(given.num_classes),
        rescores_skipped=True,
        claim="10% to 50% of the backward passes, without loss",
    ),
    "OrderDP": _published(
        lambda _: published.OrderDP(),
        claim="40% of the examples, without loss",
        remark="its constants skip 70% of an epoch",
    ),
    "RePB": _published(lambda _: published.RePB(), weighted=True, remark=REPB_REMARK),
    "RS2": _published(lambda _: published.RS2(), remark="a shorter run by definition"),
    "KAKURENBO": Method(_kakurenbo, needs_classes=True, claim="up to 22% of the time, for 0.4 points of accuracy"),
    "Ordered SGD": Method(_top_losses, needs_classes=True),
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
    """A method of the table, or the user's own ordering or selection, `module:name` as `own.marked` gives it."""
    if name in METHODS:
        return METHODS[name]
    rule = own.rule(name)
    if isinstance(rule, Selection):
        # A selection may count its calls: every run has its own.
        return Method(
            lambda given: Strategy(given.sampler(go.Shuffled()), select=deepcopy(rule), weighted=rule.reweights)
        )
    # Losses of the training steps are its scores; weights are ones unless it gives some.
    return Method(lambda given: Strategy(given.sampler(rule), remembers=rule.needs_scores, weighted=True))


CORE = (BASELINE, RECOMMENDED, RANDOM_STRATIFIED, "InfoBatch", "Ordered SGD")
"""What runs on every task. Stratified batches are there without our order, too: they are not counted as order."""

REFEREE = (
    BASELINE,
    RANDOM_STRATIFIED,
    RECOMMENDED,
    "InfoBatch",
    "SeTa",
    "IES",
    "OrderDP",
    "RePB",
    "RS2",
    "KAKURENBO",
)
"""Published rules as published, beside random reshuffling, stratified batches and the default."""
