"""What a DataLoader consumes: an order, batch after batch, that can be resumed and learns from training."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, final

import torch
from torch.utils.data import Dataset, DistributedSampler

from gradorder import checks
from gradorder.errors import StepError
from gradorder.layouts import Classes, Layout
from gradorder.lessons import Lessons
from gradorder.memory import ScoreMemory
from gradorder.orderings import Descending, Ordering
from gradorder.plan import EpochPlan, Progress
from gradorder.planner import EpochPlanner, Keep
from gradorder.ranks import Ranks, own_rank, world_size
from gradorder.state import SamplerState

Scores = torch.Tensor | Callable[[], torch.Tensor]
"""One number per example of the data set, or a function that computes them when they are needed."""


@final
class OrderedSampler(DistributedSampler[int]):
    """Hands a `DataLoader` the examples of each epoch in the order that an ordering gives.

    It decides three things for every epoch: the order (from scores), how much of it is kept, and how it is
    laid out in batches. It knows neither model nor loss.

    Args:
        dataset_or_length: a map-style dataset, or the number of examples.
        batch_size: examples in one training step, over all processes together.
        ordering: the rule from scores to order.
        labels: one label per example; given, every batch holds its share of each class, to within one.
        layout: "contiguous", the order as given. For orderings by score also "dealt", position i goes to batch
            i mod num_batches, so that every batch has the same spread of difficulty; and "shuffled", the kept part
            in random order, so that scores decide what is seen but not when.
        keep: the fraction of each epoch to train on, or a function from epoch to fraction: the first
            ceil(keep * n) of the order, with labels the first ceil(keep * n_c) of each class.
        start_epoch: epochs before it are random and complete; from it on they are ordered and kept in part.
        seed: of all randomness. Two samplers with the same seed give the same epochs.
        drop_last: leave out a last batch that is not full.
        num_replicas: number of processes; that of the default process group if not given.
        rank: this process.

    Example:
        >>> sampler = OrderedSampler(6, batch_size=2, keep=0.5)
        >>> sampler.set_epoch(0, scores=torch.tensor([1.0, 6.0, 3.0, 2.0, 5.0, 4.0]))
        >>> list(sampler)
        [1, 4, 5]

    In a training loop::

        sampler = OrderedSampler(dataset, batch_size=128)
        loader = DataLoader(dataset, batch_size=sampler.loader_batch_size, sampler=sampler)
        for epoch in range(epochs):
            sampler.set_epoch(epoch, scores=lambda: score_dataset(model, dataset, GradientNorm()))
            for batch in loader:
                ...
                sampler.step()
    """

    def __init__(
        self,
        dataset_or_length: Any,  # noqa: ANN401 - any map-style dataset
        batch_size: int = 128,
        *,
        ordering: Ordering = Descending(),  # noqa: B008 - frozen
        labels: Any = None,  # noqa: ANN401 - anything array-like
        layout: Layout = "contiguous",
        keep: Keep = 1.0,
        start_epoch: int = 0,
        seed: int = 0,
        drop_last: bool = False,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        self.num_examples = checks.num_examples_of("dataset_or_length", dataset_or_length)
        self.batch_size = checks.integer("batch_size", batch_size, minimum=1)
        self._follows_process_group = num_replicas is None
        replicas = checks.integer("num_replicas", world_size() if num_replicas is None else num_replicas, minimum=1)
        number = checks.integer("rank", _default_rank(replicas) if rank is None else rank, minimum=0)
        if number >= replicas:
            raise ValueError(f"rank must be below num_replicas={replicas}, got {number}")
        if self.batch_size % replicas:
            raise ValueError(f"batch_size must be divisible by num_replicas={replicas}, got {self.batch_size}")
        super().__init__(
            _as_dataset(dataset_or_length),
            num_replicas=replicas,
            rank=number,
            shuffle=False,
            seed=checks.integer("seed", seed, minimum=0),
            drop_last=bool(drop_last),
        )
        self._planner = EpochPlanner(
            num_examples=self.num_examples,
            batch_size=self.batch_size,
            ordering=ordering,
            classes=None if labels is None else Classes.of(labels, self.num_examples),
            layout=layout,
            keep=keep,
            start_epoch=checks.integer("start_epoch", start_epoch, minimum=0),
            seed=self.seed,
            drop_last=self.drop_last,
            num_replicas=replicas,
            rank=number,
        )
        self._ranks = Ranks.numbered(replicas, number)
        self._memory = ScoreMemory(self.num_examples, self._ranks)
        self._lessons = Lessons(ordering, self.num_examples)
        self._plan: EpochPlan | None = None  # made when first needed
        self._progress = Progress()
        self._looked_back = _LookBack(epoch=0, scores=None)
        self._planned_steps: dict[int, int] = {}
        self._promised_steps: dict[int, int] = {}
        self._is_stepped = False
        self._resuming = False

    # ---------------------------------------------------------------- sizes

    @property
    def loader_batch_size(self) -> int:
        """The batch size for this process's `DataLoader`."""
        return self.batch_size // self.num_replicas

    def __len__(self) -> int:
        """The examples of the whole current epoch for this process."""
        return self._current_plan().num_examples_of_rank

    def num_steps(self, first_epoch: int, last_epoch: int) -> int:
        """The training steps of the epochs `range(first_epoch, last_epoch)`, for learning-rate schedules.

        An epoch that is not planned yet counts as it will be with scores. If scores come only from `step`, the
        first epoch has none and will be complete: say so with `start_epoch=1`, or ask after `set_epoch(0)`.

        Raises:
            ValueError: an epoch is not planned yet, and the ordering decides only then what to leave out.
        """
        checks.integer("first_epoch", first_epoch, minimum=0)
        checks.integer("last_epoch", last_epoch, minimum=first_epoch)
        return sum(self._num_steps_of(epoch) for epoch in range(first_epoch, last_epoch))

    def _num_steps_of(self, epoch: int) -> int:
        if epoch in self._planned_steps:
            return self._planned_steps[epoch]
        return self._promised_steps.setdefault(epoch, self._planner.num_steps(epoch))

    @property
    def steps_left(self) -> int:
        """The training steps of the current epoch that were not consumed yet (without `step`: not handed out)."""
        return self._current_plan().num_batches - self._num_consumed()

    # ---------------------------------------------------------------- planning

    def set_epoch(self, epoch: int, scores: Scores | None = None) -> None:
        """Plan an epoch.

        Args:
            epoch: 0, 1, 2, ...
            scores: one number per example, or a function giving them, which is called only if this epoch needs
                scores. They order this epoch and replace everything remembered. Without them the epoch is
                ordered by the scores remembered from `step`; with none remembered it is random and complete.

        For the current epoch this changes nothing without scores (so frameworks may repeat the call), and
        replans with scores while nothing of it was consumed. An error leaves the sampler as it was.

        With several processes call it on all of them. Scores remembered since the last epoch are brought together
        here, and the orders are compared.

        Raises:
            RankError: the processes do not agree on epoch or order, or one of them could not plan; on all of them.
        """
        checks.integer("epoch", epoch, minimum=0)
        self._check_world_size()
        if self._resuming and epoch < self.epoch:
            raise ValueError(
                f"epoch must be at least {self.epoch}, where load_state_dict goes on, got {epoch}: does a framework "
                "count epochs by itself? see gradorder.integrations"
            )
        replans = epoch != self.epoch or (scores is not None and self._progress.consumed == 0)
        self._ranks.agree(
            "what set_epoch is called for",
            epoch=epoch,
            replans=replans,
            scores=_kind(scores),
            order=0 if replans else self._fingerprint(self._current_plan()),
        )
        if replans:
            self._replan(epoch, scores)
        self._planned_steps[epoch] = self._current_plan().num_batches

    def _replan(self, epoch: int, scores: Scores | None) -> None:
        with self._ranks.failing_together(f"planning epoch {epoch}"):
            self._memory.settle()
            remembered, used = self._scores_for(epoch, scores)
            lessons = self._lessons_for(epoch)
            plan = self._planner.plan(epoch, used, lessons.order())
        self._ranks.agree(f"the order of epoch {epoch}", order=self._fingerprint(plan))
        if remembered is not None:
            self._memory.replace(remembered)
        self._lessons = lessons
        self._adopt(plan, Progress(), self._look_back(epoch, used))

    def _lessons_for(self, epoch: int) -> Lessons:
        """The lessons for this epoch, after the current one: new ones, so that a plan that fails changes nothing."""
        if not self._lessons.are_given or epoch == self.epoch:
            return self._lessons
        lessons = self._lessons.with_state(self._lessons.state())
        lessons.end_epoch(
            self._current_plan(), was_due=self._progress.issued > 0 and self._planner.is_ordered(self.epoch)
        )
        return lessons

    def _fingerprint(self, plan: EpochPlan) -> int:
        """What the processes compare, computed only where there are several."""
        return plan.fingerprint if self._ranks.is_connected else 0

    def _scores_for(self, epoch: int, given: Scores | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The scores to remember, and those that order this epoch."""
        is_scored = self._planner.ordering.needs_scores and epoch >= self._planner.start_epoch
        replays = is_scored and self._replays_planned(epoch)
        if callable(given):
            given = given() if is_scored and not replays else None
        fresh = None if given is None else checks.finite_scores(given, self.num_examples).cpu()
        if replays:
            return fresh, self._looked_back.scores
        if not is_scored:
            return fresh, None
        return fresh, self._memory.complete() if fresh is None else fresh

    def _replays_planned(self, epoch: int) -> bool:
        """Whether this epoch replays one that was planned, ordered and is still known."""
        source = self._planner.ordering.scores_epoch(epoch)
        return self._planner.start_epoch <= source < epoch and source == self._looked_back.epoch

    def _check_world_size(self) -> None:
        if self._follows_process_group and world_size() != self.num_replicas:
            raise RuntimeError(
                f"the sampler was built for {self.num_replicas} processes and now there are {world_size()}: "
                "build it after torch.distributed is initialised"
            )

    def _keep_promise(self, plan: EpochPlan) -> None:
        """Said when the epoch begins: before, a framework may have planned it that the scores came after."""
        promised = self._promised_steps.pop(plan.epoch, plan.num_batches)
        if promised != plan.num_batches:
            warnings.warn(
                f"epoch {plan.epoch} has {plan.num_batches} steps, not the {promised} that num_steps counted: "
                "there are no scores yet, so it is random and complete. Pass scores to set_epoch, or build the "
                "sampler with a later start_epoch",
                stacklevel=4,
            )

    def _look_back(self, epoch: int, scores: torch.Tensor | None) -> "_LookBack":
        """What the next epoch may need of this one: its scores, where the ordering replays epochs."""
        ordering = self._planner.ordering
        is_replayed = ordering.scores_epoch(epoch + 1) <= epoch
        kept = scores.clone() if is_replayed and scores is not None else None
        return _LookBack(ordering.scores_epoch(epoch), kept)

    def _current_plan(self) -> EpochPlan:
        if self._plan is None:
            self._plan = self._planner.plan(self.epoch, None)
        return self._plan

    def _adopt(self, plan: EpochPlan, progress: Progress, looked_back: "_LookBack") -> None:
        self._plan = plan
        self._progress = progress
        self._looked_back = looked_back
        self._resuming = False
        self.epoch = plan.epoch
        # What DistributedSampler keeps, for those who read it.
        self.num_samples = plan.num_examples_of_rank
        self.total_size = len(plan.sequence)

    # ---------------------------------------------------------------- iterating

    def __iter__(self) -> Iterator[int]:
        """The current epoch from its first batch; after `load_state_dict`, once, from the loaded place."""
        return self._handed_out(self._current_plan())

    def _handed_out(self, plan: EpochPlan) -> Iterator[int]:
        """The only loop over examples. A batch counts as issued when its first index is taken.

        Nothing changes before that: some loaders make an iterator and throw it away.
        """
        progress = self._started(plan) if plan is self._plan else Progress()
        for batch in plan.batches(progress.issued):
            progress.issued += 1
            yield from batch

    def _started(self, plan: EpochPlan) -> Progress:
        self._keep_promise(plan)
        start = self._progress.consumed if self._resuming else 0
        if start == 0:
            self._lessons.begin_epoch()
        self._resuming = False
        self._progress = Progress(issued=start, consumed=start)
        return self._progress

    # ---------------------------------------------------------------- consuming

    def step(self, scores: torch.Tensor | None = None, *, gradients: torch.Tensor | None = None) -> None:
        """Count one batch of this process's loader as consumed, and remember its scores if given.

        Call it once per batch, in the order of the batches. With several processes each gives the scores of its
        own slice; they are brought together when the next epoch is planned, not here. Scores that an accelerator
        holds are checked for NaN at the next `set_epoch` or `state_dict`, to keep the step from waiting; on the
        CPU, here. `gradients`, one row per example, are for an ordering that learns from them, and needed by it.
        """
        progress = self._progress
        if progress.consumed >= progress.issued:
            raise StepError(
                f"step must follow a batch: {progress.issued} were issued in this iteration of epoch "
                f"{self.epoch} and {progress.consumed} consumed already"
            )
        if scores is not None or gradients is not None or self._lessons.are_given:
            self._take_in(scores, gradients)
        self._is_stepped = True
        progress.consumed += 1

    def _take_in(self, scores: torch.Tensor | None, gradients: torch.Tensor | None) -> None:
        indices = self._current_plan().indices(self._progress.consumed)
        where = f"given to step for batch {self._progress.consumed} of epoch {self.epoch}"
        are_due = self._planner.is_ordered(self.epoch)
        rows = self._lessons.checked(f"gradients {where}", gradients, indices, are_due=are_due)
        if scores is not None:
            self._remember(f"scores {where}", scores, indices)
        self._lessons.learn(indices, rows)

    def _remember(self, what: str, scores: torch.Tensor, indices: torch.Tensor) -> None:
        if self.num_replicas > 1 and not self._ranks.is_connected:
            raise RuntimeError(
                f"step(scores) needs a process group of num_replicas={self.num_replicas} to bring the scores "
                f"together, and there is one of {world_size()}: pass scores to set_epoch instead"
            )
        values = torch.as_tensor(scores).detach()
        self._memory.remember(indices, checks.per_example(what, values, len(indices)))

    @property
    def weights(self) -> torch.Tensor:
        """The weights of the batch that the next `step` consumes, one per example, as float32 on the CPU.

        Ones, unless the ordering gives weights: then train on `(weights * losses).mean()`, and give `step` the
        losses without them.
        """
        return self._current_plan().batch_weights(self._next_batch())

    @property
    def loss_scale(self) -> float:
        """What makes the mean over processes of their mean losses the mean over the batch.

        1.0 unless the next batch is cut in uneven slices.
        """
        plan, batch = self._current_plan(), self._next_batch()
        return len(plan.indices(batch)) * self.num_replicas / plan.batch_length(batch)

    def _next_batch(self) -> int:
        if self._progress.consumed >= self._current_plan().num_batches:
            raise StepError(f"epoch {self.epoch} is over: no batch is left for the next step")
        return self._progress.consumed

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """The place in the run as plain tensors and numbers, fit for `torch.load(..., weights_only=True)`.

        It counts the batches that `step` consumed or, where `step` was never called, those handed out: with
        workers that prefetch, call `step`. With several processes call it on all of them and save it on one: it
        is the same on all, and fits any number of processes.
        """
        plan = self._current_plan()
        consumed = self._num_consumed()
        self._ranks.agree("the place in the run", epoch=plan.epoch, consumed=consumed, order=self._fingerprint(plan))
        self._memory.settle()
        return SamplerState(
            num_examples=self.num_examples,
            batch_size=self.batch_size,
            seed=self.seed,
            epoch=plan.epoch,
            consumed=consumed,
            is_stepped=self._is_stepped,
            sequence=plan.sequence,
            scores_epoch=self._looked_back.epoch,
            epoch_scores=self._looked_back.scores,
            remembered_scores=self._memory.known(),
            weights=plan.weights,
            learned=self._lessons.state(),
        ).to_dict()

    def _num_consumed(self) -> int:
        return self._progress.consumed if self._is_stepped else self._progress.issued

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called: the next iteration gives exactly the batches that were left.

        The planned epoch comes from the state, later ones from this sampler's own settings.
        """
        loaded = SamplerState.from_dict(
            state, num_examples=self.num_examples, batch_size=self.batch_size, seed=self.seed
        )
        plan = self._planner.planned(loaded.epoch, loaded.sequence, loaded.weights)
        lessons = self._lessons.with_state(loaded.learned)
        progress = Progress(issued=loaded.consumed, consumed=loaded.consumed)
        self._lessons = lessons
        self._adopt(plan, progress, _LookBack(loaded.scores_epoch, loaded.epoch_scores))
        self._memory.restore(loaded.remembered_scores)
        self._is_stepped = loaded.is_stepped
        self._planned_steps[plan.epoch] = plan.num_batches
        self._resuming = True


@dataclass(frozen=True, eq=False)
class _LookBack:
    """The epoch whose scores made the current plan, and those scores if a later epoch will replay it."""

    epoch: int
    scores: torch.Tensor | None


def _as_dataset(dataset_or_length: Any) -> Dataset[Any]:  # noqa: ANN401 - any map-style dataset
    """A number as the data set of the numbers below it, which is all that the base class asks for."""
    return range(dataset_or_length) if isinstance(dataset_or_length, Integral) else dataset_or_length  # type: ignore[return-value]


def _default_rank(num_replicas: int) -> int:
    """This process's rank; a sampler for one process is whole, whatever process group there is."""
    return 0 if num_replicas == 1 else own_rank()


def _kind(scores: Scores | None) -> int:
    """Whether scores are missing, given or to be computed: what processes must have in common to plan together."""
    return 0 if scores is None else 1 + callable(scores)
