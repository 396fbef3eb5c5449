"""An ordering is a rule: a request in, an order out.

The sampler says what it knows about an epoch (`Request`), the rule says what the epoch visits (`Order`), and nobody
asks further: a rule that leaves examples out names fewer, a rule that weighs them gives weights, a rule that cannot
serve a request says so in an error.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
import torch

from gradorder import checks
from gradorder.orderings.learner import Learner
from gradorder.parts import part_of
from gradorder.precision import widened


@dataclass(frozen=True, eq=False)
class Request:
    """What a rule may know about the epoch that it is asked to order.

    Args:
        epoch: 0, 1, 2, ...
        num_examples: N.
        generator: of all randomness, seeded from the run's seed and the rule's `source_epoch`.
        scores: one finite number per example, shape (N,), float32 or float64; None where the rule needs none.
        known: booleans, shape (N,): whether each example was ever scored. A rule puts the others first, whatever it
            does with scores, and `kept` does so. None: all are known.
        classes: the class of each example, a whole number from 0 on, shape (N,). Given, every class keeps its own part.
        keep: the fraction to keep, in (0, 1]; None: everything.
        num_replicas: the number of processes that share the order.
        learned: the order that this rule's learner has learned, where it has one (see `Ordering.learner`).
        class_counts: how many examples each class has, where that is known already.
    """

    epoch: int
    num_examples: int
    generator: torch.Generator
    scores: torch.Tensor | None = None
    known: torch.Tensor | None = None
    classes: torch.Tensor | None = None
    keep: float | None = None
    num_replicas: int = 1
    learned: torch.Tensor | None = None
    class_counts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        checks.integer("epoch", self.epoch, minimum=0)
        checks.integer("num_examples", self.num_examples, minimum=1)
        if self.scores is not None:
            object.__setattr__(self, "scores", _wide(checks.finite_scores(self.scores, self.num_examples)))
        if self.keep is not None:
            checks.fraction("keep", self.keep)
        for name in ("known", "classes"):
            value = getattr(self, name)
            if value is not None and tuple(value.shape) != (self.num_examples,):
                raise ValueError(
                    f"{name} must hold one value per example, shape ({self.num_examples},), got {tuple(value.shape)}"
                )
        if self.known is not None and self.known.dtype != torch.bool:
            raise ValueError(f"known must be booleans, got {self.known.dtype}")

    @property
    def required_scores(self) -> torch.Tensor:
        """The scores, for a rule that needs them."""
        if self.scores is None:
            raise ValueError("scores must be given for an ordering that needs them, got None")
        return self.scores

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many examples each class has; one class of all where there are none."""
        if self.classes is None:
            return (self.num_examples,)
        return self.class_counts or tuple(np.bincount(self.classes.cpu().numpy()).tolist())

    @property
    def num_kept(self) -> tuple[int, ...]:
        """How many examples of each class are to be kept: ceil(keep * n_c), at least 1."""
        if self.keep is None:
            return self.counts
        return tuple(part_of(self.keep, count) if count else 0 for count in self.counts)

    def kept(self, order: torch.Tensor) -> torch.Tensor:
        """The part of an order that is kept: what was never scored, then the others, and of each class the first."""
        if self.known is not None:
            is_known = self.known.to(order.device)[order]
            order = torch.cat([order[~is_known], order[is_known]])
        if self.num_kept == self.counts:
            return order
        if self.classes is None:
            return order[: self.num_kept[0]]
        return order[self._first_of_each_class(order)]

    def _first_of_each_class(self, order: torch.Tensor) -> torch.Tensor:
        classes = self.classes_of(order).cpu().numpy()
        # For integers of up to 16 bits numpy's stable sort is a radix sort: linear time.
        by_class = np.argsort(classes, kind="stable")
        is_kept = np.zeros(len(order), dtype=bool)
        start = 0
        counts = self.counts if len(order) == self.num_examples else np.bincount(classes, minlength=len(self.counts))
        for count, num_kept in zip(counts, self.num_kept, strict=True):
            is_kept[by_class[start : start + min(count, num_kept)]] = True
            start += count
        return torch.from_numpy(is_kept).to(order.device)

    def classes_of(self, examples: torch.Tensor) -> torch.Tensor:
        """The class of each of these examples; 0 for all where there are no classes."""
        if self.classes is None:
            return torch.zeros(len(examples), dtype=torch.uint8, device=examples.device)
        return self.classes.to(examples.device)[examples]


@dataclass(frozen=True, eq=False)
class Order:
    """What a rule decides about an epoch.

    Args:
        indices: the kept examples in order, int64.
        weights: one for each of `indices`, not negative; None: all are 1.
        backwards: play the epoch's batches last to first; `indices` are in the order before that.
        repeats: whether an example may stand in `indices` more than once.
    """

    indices: torch.Tensor
    weights: torch.Tensor | None = None
    backwards: bool = False
    repeats: bool = False


class Ordering(ABC):
    """A rule from a request to an order. Every subclass is a frozen dataclass and holds no state.

    A rule of one's own says whether it `needs_scores` and implements `order`::

        @dataclass(frozen=True)
        class MiddleFirst(go.Ordering):
            needs_scores: ClassVar[bool] = True

            def order(self, request):
                distance = (request.scores - request.scores.median()).abs()
                return go.Order(request.kept(torch.argsort(distance, stable=True)))

    `gradorder.testing.check_ordering(MiddleFirst())` tells whether it keeps the contract. The methods after `order`
    have defaults that serve most rules.
    """

    @property
    @abstractmethod
    def needs_scores(self) -> bool:
        """Whether the order depends on scores."""

    @abstractmethod
    def order(self, request: Request) -> Order:
        """What this epoch visits; the same for the same request and generator state. Equal scores: by index."""

    def source_epoch(self, epoch: int) -> int:
        """The epoch whose random numbers and scores this epoch uses: itself, or an earlier one that it replays."""
        return epoch

    def num_kept(self, request: Request) -> int | None:
        """How many examples `order` will name, asked before there are scores; None where only the order can tell.

        Raises:
            ValueError: the rule cannot serve such a request. Asked first when a sampler is built.
        """
        return sum(request.num_kept)

    def order_without_scores(self, request: Request) -> Order:
        """What an epoch visits for which there are no scores yet, although the rule needs them: all, at random."""
        device = request.generator.device
        return Order(torch.randperm(request.num_examples, generator=request.generator, device=device))

    def inside(self, wrapper: "Ordering") -> None:
        """Called when another ordering is put around this one; raise a ValueError if that cannot work."""
        del wrapper

    def learner(self, num_examples: int) -> Learner:
        """What learns from gradients for one sampler; by default nothing."""
        del num_examples
        return Learner(self)

    @classmethod
    def typical(cls) -> tuple[Self, ...]:
        """Instances on which the contract of this library is tested."""
        return (cls(),)

    @final
    def __call__(
        self,
        scores: torch.Tensor | None,
        *,
        epoch: int,
        generator: torch.Generator,
        num_examples: int | None = None,
    ) -> torch.Tensor:
        """The order of this epoch, as a LongTensor: a permutation of range(N) unless the rule leaves out or repeats.

        Args:
            scores: one number per example; None where none are needed.
            epoch: 0, 1, 2, ...
            generator: of all randomness.
            num_examples: N, where there are no scores.

        Raises:
            NonFiniteScoresError: some scores are NaN or infinite.
            ValueError: the scores are missing, of the wrong length, or not one number per example.
        """
        if scores is None and self.needs_scores:
            raise ValueError(f"scores must be given: {self} orders by them, got None")
        if scores is None and num_examples is None:
            raise ValueError("num_examples must be given where scores is None")
        if scores is not None:
            scores = checks.finite_scores(scores, num_examples)
            num_examples = len(scores)
        order = checked_order(self, Request(epoch, num_examples or 0, generator, scores))
        return order.indices.flip(0) if order.backwards else order.indices


def _wide(scores: torch.Tensor) -> torch.Tensor:
    """Whole numbers as doubles, which hold them exactly up to 2^53; half precision as float32."""
    return widened(scores) if scores.is_floating_point() else scores.double()


def checked_order(rule: Ordering, request: Request) -> Order:
    """What the rule answers, checked before anything is built on it: the rule may be the user's own."""
    size = rule.num_kept(request)
    if rule.needs_scores and request.scores is None:
        order, size = rule.order_without_scores(request), request.num_examples
    else:
        order = rule.order(request)
    if not isinstance(order, Order):
        raise TypeError(f"{rule} must give an Order, got {order!r}")
    _check_indices(rule, order, request.num_examples, size)
    if order.weights is not None:
        _check_weights(rule, order.weights, len(order.indices))
    return order


def _check_indices(rule: Ordering, order: Order, num_examples: int, size: int | None) -> None:
    indices = order.indices
    count = "some" if size is None else str(size)
    promise = f"{rule} must name {count} of range({num_examples})"
    has_size = 0 < len(indices) <= num_examples if size is None else len(indices) == size
    if indices.dtype != torch.int64 or indices.ndim != 1 or not has_size:
        raise ValueError(f"{promise}, got shape {tuple(indices.shape)} of {indices.dtype}")
    named = indices.cpu().numpy()  # numpy marks places several times as fast as torch
    lowest, highest = int(named.min()), int(named.max())
    if lowest < 0 or highest >= num_examples:
        raise ValueError(f"{promise}, got indices from {lowest} to {highest}")
    if order.repeats:
        return
    is_named = np.zeros(num_examples, dtype=bool)
    is_named[named] = True
    if np.count_nonzero(is_named) < len(named):
        raise ValueError(f"{promise}, each at most once, got an example twice (Order(..., repeats=True) allows it)")


def _check_weights(rule: Ordering, weights: torch.Tensor, num: int) -> None:
    promise = f"{rule} must give one weight for each of {num} kept examples"
    if tuple(weights.shape) != (num,):
        raise ValueError(f"{promise}, got shape {tuple(weights.shape)}")
    lowest, highest = (float(value) for value in weights.aminmax())
    if not (np.isfinite(lowest) and np.isfinite(highest)) or lowest < 0:
        raise ValueError(f"{promise}, finite and not negative, got from {lowest} to {highest}")
