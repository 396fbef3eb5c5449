"""The result of a probe, and the statistics of gradient norms behind it."""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LIKELY: Final = 1.5
"""From this gain per time on, a choice by scores is likely to pay. Our choice, not a measurement."""

UNLIKELY: Final = 1.1
"""Below this gain per time it is unlikely to."""

_SAVED_BY_HALF: Final = 0.5

EXACT: Final = "GradientNorm"
"""The score whose numbers the others are compared with."""

Prospect = Literal["likely", "unclear", "unlikely"]


@dataclass(frozen=True)
class ScoreAdvice:
    """What one score costs and knows.

    Args:
        name: of the score; "remembered losses" are those that a training step has computed anyway.
        cost: time to score a batch, as a part of the time to train on it (forward, backward, optimizer step); the
            median over the rounds of the probe.
        rank_correlation: Spearman's, with the exact gradient norms; None where either is constant.
        gain: how many times lower the second moment of the gradient is, if examples are drawn in proportion to this
            score (raised by a tenth of its mean) and weighted, than if they are drawn uniformly.
    """

    name: str
    cost: float
    rank_correlation: float | None
    gain: float

    @property
    def gain_per_time(self) -> float:
        """The gain over 1 + cost: every example trained on is scored once."""
        return self.gain / (1 + self.cost)

    @property
    def half_saving(self) -> float:
        """The most that keep=0.5 can save of an epoch's time, all examples scored; negative where it costs more."""
        return _SAVED_BY_HALF - self.cost


@dataclass(frozen=True)
class Advice:
    """What a probe of a model and its data found; `print(advice)` tells it in words.

    Args:
        num_examples: how many were probed.
        batch_size: of the training steps timed.
        step_seconds: time of a training step on one batch, the median over the rounds of the probe.
        variation: coefficient of variation of the exact gradient norms.
        harder_half_share: the part of the sum of norms that the harder half of the examples holds.
        effective_share: mean(norm)^2 / mean(norm^2), the effective sample size over the number of examples; 1 where
            all norms are equal.
        scores: one for each score that serves this model and loss, remembered losses first.
        refused: the names of the others.
    """

    num_examples: int
    batch_size: int
    step_seconds: float
    variation: float
    harder_half_share: float
    effective_share: float
    scores: tuple[ScoreAdvice, ...]
    refused: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """1 / effective_share: what drawing by the exact norms gains over uniform, the most that any score can."""
        return 1 / self.effective_share

    @property
    def best(self) -> ScoreAdvice:
        """The score with the largest gain per time; of equal ones the first."""
        return max(self.scores, key=lambda score: score.gain_per_time)

    @property
    def verdict(self) -> Prospect:
        """Whether ordering or selection by scores is expected to pay: "likely", "unclear" or "unlikely".

        By the best score's gain per time: likely from 1.5 on, unlikely below 1.1, unclear between them.
        """
        if self.best.gain_per_time >= LIKELY:
            return "likely"
        return "unlikely" if self.best.gain_per_time < UNLIKELY else "unclear"

    @property
    def text(self) -> str:
        """The advice in plain words, a table of the scores among them."""
        return "\n".join([self._headline(), *self._spread(), "", *self._table(), "", *self._remarks()])

    def __str__(self) -> str:
        return self.text

    def _headline(self) -> str:
        said = {
            "likely": "Ordering or selection by scores is likely to pay",
            "unclear": "It is unclear whether ordering or selection by scores pays",
            "unlikely": "Ordering or selection by scores is unlikely to pay",
        }[self.verdict]
        return (
            f"{said}: expected from this probe of {self.num_examples:,} examples, by {self.best.name} "
            f"(gain per time {self.best.gain_per_time:.2f})."
        )

    def _spread(self) -> list[str]:
        return [
            f"The standard deviation of the gradient norms is {self.variation:.0%} of their mean.",
            f"The harder half of the examples holds {self.harder_half_share:.0%} of their sum.",
            f"Drawn in proportion to them, an example counts as much as {self.gain:.2f} drawn uniformly.",
        ]

    def _table(self) -> list[str]:
        head = f"{'score':<18}{'cost':>5}{'rank corr.':>12}{'gain':>7}{'gain per time':>15}{'keep=0.5 saves':>16}"
        return [head, *(_row(score) for score in self.scores)]

    def _remarks(self) -> list[str]:
        remarks = [
            f"Cost is a part of a training step on {self.batch_size} examples, {_seconds(self.step_seconds)}.",
            "Losses remembered from training need no pass, only some 0.05 ms a step; those of a real run are older.",
        ]
        remarks += [
            f"Scoring every epoch by {score.name} would add {score.cost:.0%} to its time."
            for score in self.scores
            if score.name == EXACT
        ]
        if self.refused:
            remarks.append(f"Not for this model or loss: {', '.join(self.refused)}.")
        remarks.append("A probe sees neither wrong labels, nor later epochs, nor the accuracy that follows.")
        return remarks


def _row(score: ScoreAdvice) -> str:
    correlation = "-" if score.rank_correlation is None else f"{score.rank_correlation:.2f}"
    saving = f"at most {score.half_saving:.0%}" if score.half_saving > 0 else "nothing"
    return (
        f"{score.name:<18}{score.cost:>5.0%}{correlation:>12}{score.gain:>7.2f}{score.gain_per_time:>15.2f}{saving:>16}"
    )


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


# Statistics of gradient norms and scores, arrays of shape (N,) -----------------------------------------------------

FLOOR: Final = 0.1
"""What every example's score is raised by before it is drawn, as a part of the mean score."""


def variation(norms: Array) -> float:
    """The coefficient of variation, standard deviation / mean; 0 where all are zero."""
    mean = float(norms.mean())
    return float(norms.std()) / mean if mean > 0 else 0.0


def harder_half_share(norms: Array) -> float:
    """The part of the sum that the larger half (rounded up) holds; its part of the examples where all are zero."""
    half = math.ceil(len(norms) / 2)
    total = float(norms.sum())
    return float(np.sort(norms)[::-1][:half].sum()) / total if total > 0 else half / len(norms)


def effective_share(norms: Array) -> float:
    """mean(norm)^2 / mean(norm^2), the effective sample size over N: 1 where all are equal, 1 / N where one has all."""
    largest = float(norms.max())
    if largest == 0:
        return 1.0
    relative = norms / largest
    return float(relative.mean() ** 2 / (relative**2).mean())


def gain(norms: Array, scores: Array) -> float:
    """By how much drawing by the scores, with weights, lowers the second moment of the gradient.

    Drawn with probabilities p_i and weighted by 1 / (N p_i), a gradient g has E ||g||^2 = sum_i ||g_i||^2 / (N^2 p_i).
    Here p_i is proportional to s_i = score_i + mean(score) / 10, so that a score of zero does no harm where a little
    gradient is left; uniform over that is mean(norm^2) / (mean(s) mean(norm^2 / s)). Below 1 the draw is worse than
    uniform. It is below 1 / effective_share(norms) for any scores. Nothing can be drawn by negative scores: 0 then.
    """
    if (scores < 0).any():
        return 0.0
    if not norms.any() or not scores.any():
        return 1.0
    squares = (norms / norms.max()) ** 2
    drawn = scores / scores.max()
    drawn = drawn + FLOOR * drawn.mean()
    return float(squares.mean() / (drawn.mean() * (squares / drawn).mean()))


def rank_correlation(first: Array, second: Array) -> float | None:
    """Spearman's rank correlation, equal values sharing their mean rank; None where one is constant."""
    ranks = [_mean_ranks(values) - (len(values) - 1) / 2 for values in (first, second)]
    lengths = [float(np.sqrt((centred**2).sum())) for centred in ranks]
    if min(lengths) == 0:
        return None
    return float((ranks[0] * ranks[1]).sum()) / (lengths[0] * lengths[1])


def _mean_ranks(values: Array) -> Array:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: NDArray[Any] = (ends - (counts + 1) / 2)[places]
    return ranks.astype(np.float64)
