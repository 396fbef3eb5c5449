"""An ordering is a rule: a request in, an order out.

The sampler describes an epoch (`Request`), and the rule answers with the examples that the epoch visits (`Order`). A
rule that skips examples returns fewer indices. A rule that weights them returns weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt
import torch

from gradorder import checks
from gradorder.checks import widened

ExampleIndices = npt.NDArray[np.int64]
"""The indices of the examples of a batch."""


def epoch_generator(seed: int, epoch: int, stream: int | None = None) -> torch.Generator:
    """Return the generator of one epoch of a run; `stream` separates several uses within the epoch.

    The seed sequence mixes the numbers. With seed + epoch, seed 1 would repeat the epochs of seed 0, one epoch late.
    """
    entropy = (seed, epoch) if stream is None else (seed, epoch, stream)
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


@dataclass(frozen=True, eq=False)
class Request:
    """The description of an epoch that a rule orders.

    Args:
        epoch: 0, 1, 2, ...
        num_examples: the size N of the dataset.
        generator: the source of all randomness, seeded from the run's seed and the epoch.
        scores: one finite number per example, shape (N,), float32 or float64; None if the rule needs none.
        known: booleans, shape (N,): False for an example that was never scored. Such examples come first, and `kept`
            puts them there. None means that all are known.
        classes: the class of each example as an integer from 0 on, shape (N,). If given, `keep` applies to each class.
        keep: the fraction to keep, in (0, 1]; None keeps everything.
        num_replicas: the number of processes that share the order.
        seed: the seed of the run, for randomness that several epochs share; None outside of a run.
        epochs_per_order: the number of epochs that share one order; 2 inside `FlipFlop`.
        batch_size: the global batch size; None outside of a sampler.
        drop_last: whether an incomplete last batch is dropped.
        class_counts: the number of examples of each class; counted from `classes` if not given.
    """

    epoch: int
    num_examples: int
    generator: torch.Generator
    scores: torch.Tensor | None = None
    known: torch.Tensor | None = None
    classes: torch.Tensor | None = None
    keep: float | None = None
    num_replicas: int = 1
    seed: int | None = None
    epochs_per_order: int = 1
    batch_size: int | None = None
    drop_last: bool = False
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
        """The number of examples of each class; without classes, one class of all examples."""
        if self.classes is None:
            return (self.num_examples,)
        return self.class_counts or tuple(np.bincount(self.classes.cpu().numpy()).tolist())

    @cached_property
    def kept_counts(self) -> tuple[int, ...]:
        """The number of examples of each class to keep: ceil(keep * n_c), at least 1."""
        if self.keep is None:
            return self.counts
        return tuple(checks.parts_of(self.keep, self.counts))

    @property
    def num_kept(self) -> int:
        """The total number of examples to keep."""
        return sum(self.kept_counts)

    def kept(self, order: torch.Tensor) -> torch.Tensor:
        """Return the part of an order to keep: examples that were never scored, then the first ones of each class."""
        if self.known is not None:
            is_known = self.known.to(order.device)[order]
            order = torch.cat([order[~is_known], order[is_known]])
        if self.kept_counts == self.counts:
            return order
        if self.classes is None:
            return order[: self.num_kept]
        return order[self._is_among_the_first_of_its_class(order)]

    def _is_among_the_first_of_its_class(self, order: torch.Tensor) -> torch.Tensor:
        classes = self.classes_of(order).cpu().numpy()
        # For integers of up to 16 bits numpy's stable sort is a radix sort: linear time.
        by_class = np.argsort(classes, kind="stable")
        counts = np.bincount(classes, minlength=len(self.counts))
        rank_in_class = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        is_kept = np.empty(len(order), dtype=bool)
        is_kept[by_class] = rank_in_class < np.repeat(self.kept_counts, counts)
        return torch.from_numpy(is_kept).to(order.device)

    def trainable(self, num_visited: int) -> int:
        """Return a valid length of the epoch close to `num_visited`, for a rule that itself decides the length.

        The last batch must hold two examples for every process, because BatchNorm cannot train on one; only if a
        complete epoch ends with fewer, as many as that are enough. With `drop_last` it must be full. The length is
        rounded up if there are enough examples, so that no visit is lost.
        """
        if self.batch_size is None:
            return num_visited
        last_of_complete = (self.num_examples - 1) % self.batch_size + 1
        least = self.batch_size if self.drop_last else min(2 * self.num_replicas, last_of_complete)
        tail = num_visited % self.batch_size
        filled = num_visited if tail == 0 or tail >= least else num_visited - tail + least
        return filled if filled <= self.num_examples else num_visited - tail

    def num_turns(self, every: int) -> int:
        """Return the number of parts that take turns, so that each part is visited once in `every` epochs."""
        # A part is absent for (turns - 1) * epochs_per_order epochs in a row, which must be less than `every`.
        return (every - 1) // self.epochs_per_order + 1

    def in_turn(self, every: int) -> torch.Tensor:
        """Mark the examples whose turn it is: each one at least once in any `every` consecutive epochs.

        The parts are drawn in a fixed random order, and within each class if there are classes. Parts by index could
        put all rows of one kind together, for example every fourth row in a dataset with four answers per question.
        """
        is_in_turn = torch.zeros(self.num_examples, dtype=torch.bool)
        is_in_turn[self._dealt()[self.turn(every) :: self.num_turns(every)]] = True
        return is_in_turn

    def turn(self, every: int) -> int:
        """Return the number of the part whose turn it is."""
        return self.epoch // self.epochs_per_order % self.num_turns(every)

    def parts(self, every: int) -> torch.Tensor:
        """Return the number of the part of each example, for a run that asks in every epoch."""
        turns, dealt = self.num_turns(every), self._dealt()
        parts = torch.empty(self.num_examples, dtype=torch.uint8 if turns <= 2**8 else torch.int64)
        for turn in range(turns):
            parts[dealt[turn::turns]] = turn
        return parts

    def _dealt(self) -> torch.Tensor:
        """Return the examples in the order in which they are dealt to the parts."""
        size = self.num_examples
        dealt = torch.randperm(size, generator=torch.Generator().manual_seed(size))
        if self.classes is None:
            return dealt
        classes = self.classes.cpu()
        small = classes if classes.dtype == torch.uint8 else classes.long()  # sorts bytes eight times as fast
        return dealt[torch.argsort(small[dealt], stable=True)]

    def classes_of(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the class of each of these examples; without classes, 0 for all of them."""
        if self.classes is None:
            return torch.zeros(len(examples), dtype=torch.uint8, device=examples.device)
        return self.classes.to(examples.device)[examples]


@dataclass(frozen=True, eq=False)
class Order:
    """The decision of a rule about an epoch.

    Args:
        indices: the kept examples in order, int64.
        weights: one weight per entry of `indices`, not negative; None means that all are 1.
        backwards: visit the batches last to first; `indices` hold the order before the reversal.
        repeats: whether an example may occur in `indices` more than once.
        epoch: the epoch whose order this one replays; None if it replays none.
        is_unscored: whether the order is random and complete because the rule has too few scores.
    """

    indices: torch.Tensor
    weights: torch.Tensor | None = None
    backwards: bool = False
    repeats: bool = False
    epoch: int | None = None
    is_unscored: bool = False


def random_order(request: Request) -> Order:
    """Return all examples in random order, for an epoch in which the scores that a rule needs are missing."""
    device = request.generator.device
    order = torch.randperm(request.num_examples, generator=request.generator, device=device)
    return Order(replace(request, keep=None).kept(order), is_unscored=True)


class Ordering(ABC):
    """A rule that orders the examples of an epoch. Every subclass is a frozen dataclass without state.

    Your own rule says whether it `needs_scores` and implements `order`::

        @dataclass(frozen=True)
        class MiddleFirst(go.Ordering):
            needs_scores: ClassVar[bool] = True

            def order(self, request):
                distance = (request.scores - request.scores.median()).abs()
                return go.Order(request.kept(torch.argsort(distance, stable=True)))

    `gradorder.testing.check_ordering(MiddleFirst())` checks the contract. A rule that rejects some settings, decides
    the length of an epoch, or carries something from epoch to epoch also overrides `start`.
    """

    @property
    @abstractmethod
    def needs_scores(self) -> bool:
        """Whether the order depends on scores."""

    @abstractmethod
    def order(self, request: Request) -> Order:
        """Order an epoch. The same request and generator state give the same order; ties go by index."""

    def start(self, request: Request) -> "OrderingRun":
        """Start a run: called once when a sampler is built, with a sample request that has no scores.

        Raises:
            ValueError: the rule cannot serve such requests.
        """
        del request
        return OrderingRun(self)

    @final
    def __call__(
        self,
        scores: torch.Tensor | None,
        *,
        epoch: int,
        generator: torch.Generator,
        num_examples: int | None = None,
    ) -> torch.Tensor:
        """Return the order of this epoch: a permutation of range(N), unless the rule skips or repeats examples.

        Args:
            scores: one number per example; None if the rule needs none.
            epoch: 0, 1, 2, ...
            generator: the source of all randomness.
            num_examples: N, if there are no scores.

        Raises:
            NonFiniteScoresError: some scores are NaN or infinite.
            ValueError: the scores are missing, of the wrong length, or not one number per example.
        """
        if scores is None and self.needs_scores:
            raise ValueError(f"scores must be given, because {self} orders by them, got None")
        if scores is None and num_examples is None:
            raise ValueError("num_examples must be given if scores is None")
        if scores is not None:
            scores = checks.finite_scores(scores, num_examples)
            num_examples = len(scores)
        request = Request(epoch, num_examples or 0, generator, scores)
        order = checked_order(self, request, self.order(request))
        return order.indices.flip(0) if order.backwards else order.indices


class OrderingRun:
    """One run of a rule. This base class is for rules that carry nothing from epoch to epoch.

    A subclass may replay an earlier order (`FlipFlop`) or learn from gradients (`GradientBalancing`). The sampler plans
    with a copy, so a plan that fails changes nothing.

    Args:
        rule: the ordering.
        prunes: whether the rule itself decides how many examples an epoch visits, so that the number of steps is known
            only when the epoch is planned.
    """

    def __init__(self, rule: Ordering, *, prunes: bool = False) -> None:
        self.rule = rule
        self.prunes = prunes

    can_be_replayed: ClassVar[bool] = False
    """Whether `FlipFlop` may wrap the rule although the run carries something: it asks for every second epoch only."""

    def needs_scores(self, epoch: int) -> bool:
        """Whether this epoch needs scores."""
        del epoch
        return self.rule.needs_scores

    def worth(self, part: float) -> float:
        """Return how many epochs of the run an epoch counts that visits this part of the examples."""
        del part
        return 1.0

    def order(self, request: Request) -> Order:
        """Order an epoch. If the rule needs scores and there are none, the order is random and complete."""
        if self.rule.needs_scores and request.scores is None:
            return random_order(request)
        return checked_order(self.rule, request, self.rule.order(request))

    def checked_gradients(
        self, what: str, gradients: torch.Tensor | None, examples: ExampleIndices, *, is_due: bool
    ) -> torch.Tensor | None:
        """Check the gradients of a step and return them, without learning from them yet.

        Args:
            what: the name of the gradients in an error message.
            gradients: one row per example; None if the step had none.
            examples: the examples of the step.
            is_due: whether the epoch is ordered, so that gradients are expected.
        """
        del what, examples, is_due
        if gradients is not None:
            raise ValueError(f"gradients must not be given with {self.rule}, which does not learn from them")
        return None

    def begin_epoch(self) -> None:
        """Discard the gradients of the current epoch, because it starts again from its first batch."""

    def learn(self, examples: ExampleIndices, gradients: torch.Tensor | None) -> None:
        """Learn from a step, with gradients that `checked_gradients` returned."""

    def end_epoch(self, epoch: int, num_planned: int, *, is_due: bool) -> None:
        """Finish an epoch of `num_planned` examples; `is_due` says whether gradients were expected."""

    def state(self) -> dict[str, torch.Tensor | int]:
        """Return everything that the run carries, as plain tensors and numbers."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`. An empty state is that of a new run."""


@dataclass(frozen=True)
class Wrapping(Ordering):
    """An ordering that wraps another one and changes its request or its order.

    Args:
        inner: the wrapped ordering.
    """

    inner: Ordering

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Ordering):
            raise TypeError(f"inner must be an ordering such as Shuffled(), got {self.inner!r}")
        if not self._can_wrap(self.inner.start(Request(0, 1, torch.Generator()))):
            raise ValueError(
                f"inner must not carry anything from epoch to epoch, got {self.inner}. Put FlipFlop outermost; "
                "GradientBalancing cannot be wrapped"
            )

    def _can_wrap(self, run: OrderingRun) -> bool:
        """Whether the inner ordering carries nothing that this wrapper would lose."""
        return type(run) is OrderingRun

    @property
    def needs_scores(self) -> bool:
        """Whether the inner ordering needs scores."""
        return self.inner.needs_scores

    def start(self, request: Request) -> OrderingRun:
        """Start a run, after the inner ordering has checked the request."""
        return OrderingRun(self, prunes=self.inner.start(request).prunes)


def _wide(scores: torch.Tensor) -> torch.Tensor:
    """Convert integers to float64, which is exact up to 2^53, and half precision to float32."""
    return widened(scores) if scores.is_floating_point() else scores.double()


def checked_order(rule: Ordering, request: Request, order: object) -> Order:
    """Check an order that a rule returned, and shorten it if the rule ignored `keep`."""
    if not isinstance(order, Order):
        raise TypeError(f"{rule} must return an Order, got {order!r}")
    check_content(rule, order, request.num_examples)
    if order.weights is None and len(order.indices) > request.num_kept and not order.is_unscored:
        return replace(order, indices=request.kept(order.indices))
    if order.weights is not None and len(order.indices) > request.num_kept:
        raise ValueError(
            f"{rule} must return at most {request.num_kept} examples with weights, got {len(order.indices)}. Weight "
            "only the examples that request.kept(order) returns"
        )
    return order


def check_content(rule: Ordering, order: Order, num_examples: int) -> None:
    """Check indices and weights of an order, from a rule or from a saved state."""
    _check_indices(rule, order, num_examples)
    if order.weights is not None:
        _check_weights(rule, order.weights, len(order.indices))


def _check_indices(rule: Ordering, order: Order, num_examples: int) -> None:
    indices = order.indices
    expected = f"{rule} must return 1 to {num_examples} indices of range({num_examples})"
    if indices.dtype != torch.int64 or indices.ndim != 1 or not 0 < len(indices) <= num_examples:
        raise ValueError(f"{expected}, got shape {tuple(indices.shape)} of {indices.dtype}")
    values = indices.cpu().numpy()  # the check for duplicates is several times as fast in numpy
    lowest, highest = int(values.min()), int(values.max())
    if lowest < 0 or highest >= num_examples:
        raise ValueError(f"{expected}, got indices from {lowest} to {highest}")
    if not order.repeats and has_duplicates(values, num_examples):
        raise ValueError(
            f"{expected}, each at most once, got an example twice. Order(..., repeats=True) allows repetition"
        )


def has_duplicates(indices: ExampleIndices, num_examples: int) -> bool:
    """Whether some index of range(num_examples) occurs more than once."""
    is_present = np.zeros(num_examples, dtype=bool)
    is_present[indices] = True
    return int(np.count_nonzero(is_present)) < len(indices)


def _check_weights(rule: Ordering, weights: torch.Tensor, num: int) -> None:
    expected = f"{rule} must return one weight for each of {num} kept examples"
    if tuple(weights.shape) != (num,):
        raise ValueError(f"{expected}, got shape {tuple(weights.shape)}")
    lowest, highest = (float(value) for value in weights.aminmax())
    if not (np.isfinite(lowest) and np.isfinite(highest)) or lowest < 0:
        raise ValueError(f"{expected}, finite and not negative, got from {lowest} to {highest}")
