"""The sampler: plans each epoch, hands it out, and counts what training has used of it."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from gradorder import checks
from gradorder.errors import StepError
from gradorder.orderings import Ordering
from gradorder.orderings.learner import Learner
from gradorder.ranks import Ranks, own_rank, world_size
from gradorder.sampler.current import CurrentEpoch, Iteration
from gradorder.sampler.labels import Classes
from gradorder.sampler.layout import Indices, Layout
from gradorder.sampler.memory import ScoreMemory
from gradorder.sampler.notices import Notices
from gradorder.sampler.plan import EpochPlan
from gradorder.sampler.planner import EpochPlanner, Keep
from gradorder.sampler.state import SamplerState
from gradorder.sampler.steps import StepCounts

Scores = torch.Tensor | Callable[[], torch.Tensor]
"""One number per example of the data set, or a function that computes them when they are needed."""

_SAMPLERS_OWN = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last")


@final
class OrderedSampler(DistributedSampler[int]):
    """Hands a `DataLoader` the examples of each epoch in the order that an ordering gives.

    It decides three things for every epoch: the order (from scores), how much of it is kept, and how it is
    laid out in batches. It knows neither model nor loss.

    Args:
        dataset_or_length: a map-style dataset, or the number of examples.
        batch_size: examples in one training step, over all processes together.
        ordering: the rule from scores to order. There is no default: `go.recommended` is where to start.
        labels: one label per example, or True for the dataset's own `targets` or `labels`; given, every batch holds
            its share of each class, to within one.
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
        >>> import gradorder as go
        >>> sampler = OrderedSampler(6, batch_size=2, ordering=go.Descending(), keep=0.5)
        >>> sampler.set_epoch(0, scores=torch.tensor([1.0, 6.0, 3.0, 2.0, 5.0, 4.0]))
        >>> list(sampler)
        [1, 4, 5]

    In a training loop::

        sampler = OrderedSampler(dataset, batch_size=128, ordering=Descending(), layout="dealt", start_epoch=2)
        loader = sampler.loader(dataset, num_workers=2)
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
        ordering: Ordering,
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
            classes=None if labels is None else Classes.of(labels, dataset_or_length, self.num_examples),
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
        self._learner = ordering.learner(self.num_examples)
        self._steps = StepCounts(self._planner)
        self._notices = Notices()
        self._epoch: CurrentEpoch | None = None  # planned when first needed
        self._is_stepped = False

    def __repr__(self) -> str:
        """What it will do."""
        planner = self._planner
        keep = "keep by epoch" if callable(planner.keep) else f"keep={planner.keep:g}"
        classes = planner.classes
        parts = [
            f"{self.num_examples} examples",
            f"batches of {self.batch_size}" + f" over {self.num_replicas} processes" * (self.num_replicas > 1),
            f"ordering={planner.ordering} from epoch {planner.start_epoch} on",
            f"layout={planner.layout!r}",
            keep,
            "no labels" if classes is None else f"{len(classes.counts)} balanced classes from {classes.source}",
            f"seed={self.seed}",
        ]
        return f"OrderedSampler({', '.join(parts)})"

    # ---------------------------------------------------------------- sizes

    @property
    def loader_batch_size(self) -> int:
        """The batch size for this process's `DataLoader`."""
        return self.batch_size // self.num_replicas

    def __len__(self) -> int:
        """The examples of the whole current epoch for this process."""
        return self._current().plan.num_examples_of_rank

    def num_steps(self, first_epoch: int, last_epoch: int) -> int:
        """The training steps of the epochs `range(first_epoch, last_epoch)`, for learning-rate schedules.

        An epoch that is not planned yet counts as it will be with scores. If scores come only from `step`, the
        first epoch has none and will be complete: say so with `start_epoch=1`, or ask after `set_epoch(0)`.

        Raises:
            ValueError: an epoch is not planned yet, and the ordering decides only then what to leave out.
        """
        checks.integer("first_epoch", first_epoch, minimum=0)
        checks.integer("last_epoch", last_epoch, minimum=first_epoch)
        return sum(self._steps.of(epoch) for epoch in range(first_epoch, last_epoch))

    @property
    def steps_left(self) -> int:
        """The training steps of the current epoch that were not consumed yet (without `step`: not handed out)."""
        return self._current().plan.num_batches - self._num_consumed()

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
        before = self._epoch
        if before is not None and before.is_resuming and epoch < self.epoch:
            raise ValueError(
                f"epoch must be at least {self.epoch}, where load_state_dict goes on, got {epoch}: does a framework "
                "count epochs by itself? see gradorder.integrations"
            )
        is_untouched = before is None or before.iteration.consumed == 0
        replans = before is None or epoch != self.epoch or (scores is not None and is_untouched)
        if self._ranks.is_connected:
            order = 0 if before is None or replans else before.plan.fingerprint
            kind = 0 if scores is None else 1 + callable(scores)
            self._ranks.agree("what set_epoch is called for", epoch=epoch, replans=replans, scores=kind, order=order)
        if replans:
            self._replan(before, epoch, scores)
        elif before is not None:
            self._steps.enter(before.plan)  # it may only have been looked at until now

    def _replan(self, before: CurrentEpoch | None, epoch: int, given: Scores | None) -> None:
        ended = None if epoch == self.epoch else before
        with self._ranks.failing_together(f"planning epoch {epoch}"):
            self._memory.settle()
            if ended is not None:
                self._memory.forget(ended.doubtful())
            fresh, used = self._scores_for(before, epoch, given)
            learner = self._learner if ended is None else self._learner_after(ended)
            plan = self._planner.plan(epoch, used, learner.order())
        if self._ranks.is_connected:
            self._ranks.agree(f"the order of epoch {epoch}", order=plan.fingerprint)
        # Without `step` nobody knows what was used; a resumed run counts what was handed out before.
        if ended is not None and self._is_stepped and 0 < ended.iteration.consumed < ended.plan.num_batches:
            self._notices.left_early(self.epoch, ended.iteration.consumed, ended.plan.num_batches)
        if fresh is not None:
            self._memory.replace(fresh)
        self._learner = learner
        self._steps.enter(plan)
        source_epoch = self._planner.ordering.source_epoch
        is_replayed = used is not None and source_epoch(epoch + 1) <= epoch
        self._adopt(CurrentEpoch(plan, source_epoch(epoch), used.clone() if is_replayed and used is not None else None))

    def _scores_for(
        self, before: CurrentEpoch | None, epoch: int, given: Scores | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The scores to remember, and those that order this epoch."""
        is_scored = self._planner.needs_scores(epoch)
        source = self._planner.ordering.source_epoch(epoch)
        is_replay = is_scored and self._planner.start_epoch <= source < epoch
        replayed = before if is_replay and before is not None and before.source_epoch == source else None
        if callable(given):
            given = given() if is_scored and replayed is None else None
        fresh = None if given is None else checks.finite_scores(given, self.num_examples).cpu()
        if replayed is not None:
            return fresh, replayed.source_scores
        if not is_scored:
            return fresh, None
        return fresh, self._memory.known() if fresh is None else fresh

    def _learner_after(self, ended: CurrentEpoch) -> Learner:
        """What has learned from this epoch: a copy, so that a plan that fails changes nothing."""
        learner = copy.copy(self._learner)
        is_due = ended.iteration.issued > 0 and self._planner.is_ordered(self.epoch)
        learner.end_epoch(self.epoch, len(ended.plan.sequence), is_due=is_due)
        return learner

    def _check_world_size(self) -> None:
        if self._follows_process_group and world_size() != self.num_replicas:
            raise RuntimeError(
                f"the sampler was built for {self.num_replicas} processes and now there are {world_size()}: "
                "build it after torch.distributed is initialised"
            )

    def _current(self) -> CurrentEpoch:
        if self._epoch is None:
            self._adopt(CurrentEpoch(self._planner.plan(self.epoch, None), self.epoch))
        return self._epoch  # type: ignore[return-value] # it was just set

    def _adopt(self, current: CurrentEpoch) -> None:
        self._epoch = current
        self.epoch = current.plan.epoch
        # What DistributedSampler keeps, for those who read it.
        self.num_samples = current.plan.num_examples_of_rank
        self.total_size = len(current.plan.sequence)

    # ---------------------------------------------------------------- iterating

    def loader(self, dataset: Dataset[Any] | None = None, **settings: Any) -> DataLoader[Any]:  # noqa: ANN401 - DataLoader's
        """A `DataLoader` over the dataset in this order; `settings` are DataLoader's, all but batch size and order."""
        data = self.dataset if dataset is None else dataset
        if checks.map_style_length("dataset", data) != self.num_examples:
            raise ValueError(f"dataset must hold the sampler's {self.num_examples} examples, got {len(data)}")  # type: ignore[arg-type]
        refused = [name for name in _SAMPLERS_OWN if name in settings]
        if refused or not settings.get("in_order", True):
            raise ValueError(
                f"{' and '.join(refused or ['in_order=False'])} must not be given to the loader: the sampler decides "
                "batch size and order, and takes drop_last itself"
            )
        return DataLoader(data, batch_size=self.loader_batch_size, sampler=self, **settings)

    def __iter__(self) -> Iterator[int]:
        """The current epoch from its first batch; after `load_state_dict`, once, from the loaded place."""
        return chain.from_iterable(self._issued(self._current()))

    def _issued(self, current: CurrentEpoch) -> Iterator[list[int]]:
        """The only loop over batches. One counts as issued when its first example is taken.

        Nothing changes before that: some loaders make an iterator and throw it away.
        """
        iteration = self._begin(current) if current is self._epoch else Iteration()
        for batch in current.plan.batches(iteration.issued):
            if current is self._epoch and iteration is not current.iteration and self._is_stepped:
                raise StepError(
                    f"two loaders iterate over one sampler at the same time: another one began epoch {self.epoch} "
                    f"after batch {iteration.issued} was handed out here, so nobody knows which of them step counts "
                    "for. Give the second one a sampler of its own"
                )
            iteration.issued += 1
            yield batch

    def _begin(self, current: CurrentEpoch) -> Iteration:
        """What is odd about an epoch is said when it begins: until then scores may still be given for it."""
        epoch, num_steps = self.epoch, current.plan.num_batches
        expected = self._steps.surprise(current.plan)
        if expected is not None:
            self._notices.steps_changed(epoch, num_steps, expected)
        elif self._planner.needs_scores(epoch) and self._memory.is_empty:
            keep = self._planner.fraction(epoch)
            if keep < 1 or epoch > 0:  # in epoch 0 the losses may be about to come
                self._notices.no_scores(epoch, self._planner.ordering, keep)
        self._steps.enter(current.plan)
        iteration = current.begin()
        if iteration.consumed == 0:
            self._learner.begin_epoch()
        return iteration

    # ---------------------------------------------------------------- consuming

    def step(
        self,
        scores: torch.Tensor | None = None,
        *,
        indices: Sequence[int] | torch.Tensor | None = None,
        gradients: torch.Tensor | None = None,
    ) -> None:
        """Count one batch of this process's loader as consumed, and remember its scores if given.

        Call it once per batch, in the order of the batches, also for a batch that is skipped. With several processes
        each gives the scores of its own slice; they are brought together when the next epoch is planned, not here.
        Scores that an accelerator holds are checked for NaN at the next `set_epoch` or `state_dict`, to keep the step
        from waiting; on the CPU, here.

        Args:
            scores: one number for each example of the batch, such as its losses.
            indices: the examples of the batch, where the data set hands them out; they are checked.
            gradients: one row for each example, for an ordering that learns from them, and needed by it.

        Raises:
            StepError: no batch was issued for it, or the examples are not those of the batch.
        """
        current = self._current()
        iteration, plan = current.iteration, current.plan
        batch = iteration.consumed
        if batch >= iteration.issued:
            raise StepError(
                f"step must follow a batch: {iteration.issued} were issued in this iteration of epoch {self.epoch} and "
                f"{batch} consumed already. Does the loader have sampler=sampler and "
                f"batch_size=sampler.loader_batch_size, here {self.loader_batch_size}?"
            )
        examples = plan.examples(batch)
        if indices is not None:
            self._check_examples(indices, plan, batch, iteration.issued)
        elif iteration.is_out_of_step:
            self._notices.step_missing(self.epoch, batch)
            if gradients is not None:
                raise StepError(f"step was not called for every batch before batch {batch} of epoch {self.epoch}")
            scores = None
        where = f"given to step for batch {batch} of epoch {self.epoch}"
        is_due = self._planner.is_ordered(self.epoch)
        rows = self._learner.checked(f"gradients {where}", gradients, examples, is_due=is_due)
        if scores is not None:
            self._remember(f"scores {where}", scores, examples)
        self._learner.learn(examples, rows)
        self._is_stepped = True
        iteration.consume(is_verified=indices is not None)
        if current.was_finished:
            self._notices.epoch_repeated(self.epoch)

    def _remember(self, what: str, scores: torch.Tensor, examples: Indices) -> None:
        if self.num_replicas > 1 and not self._ranks.is_connected:
            raise RuntimeError(
                f"step(scores) needs a process group of num_replicas={self.num_replicas} to bring the scores "
                f"together, and there is one of {world_size()}: pass scores to set_epoch instead"
            )
        values = torch.as_tensor(scores).detach()
        self._memory.remember(examples, checks.per_example(what, values, len(examples)))

    def _check_examples(self, given: Sequence[int] | torch.Tensor, plan: EpochPlan, batch: int, issued: int) -> None:
        named = torch.as_tensor(given).cpu().numpy()
        if np.array_equal(named, plan.examples(batch)):
            return
        later = [other for other in range(batch + 1, issued) if np.array_equal(named, plan.examples(other))]
        which = f"they are those of batch {later[0]}: call step for every batch" if later else "nor of a later one"
        raise StepError(
            f"indices must be the examples of batch {batch} of epoch {self.epoch}, for which step was not called yet, "
            f"and are not; {which}"
        )

    @property
    def weights(self) -> torch.Tensor:
        """The weights of the batch that the next `step` consumes, one per example, as float32 on the CPU.

        Ones, unless the ordering gives weights: then train on `sampler.weigh(losses).mean()`, and give `step` the
        losses without them.
        """
        current = self._current()
        batch = current.next_batch()
        if current.plan.weights is not None and current.iteration.is_out_of_step:
            raise StepError(
                f"step was not called for every batch before batch {batch} of epoch {self.epoch}, so the weights would "
                "be those of other examples: call it for every batch, also for one that is skipped"
            )
        return current.plan.batch_weights(batch)

    def weigh(self, losses: torch.Tensor) -> torch.Tensor:
        """The losses of the batch that the next `step` consumes, times its weights, where the losses are."""
        weights = self.weights
        checks.per_example("losses", losses, len(weights))
        return losses * weights.to(losses.device, losses.dtype)

    @property
    def is_weighted(self) -> bool:
        """Whether the examples of the current epoch have weights that are not all 1."""
        return self._current().plan.weights is not None

    @property
    def loss_scale(self) -> float:
        """What makes the mean over processes of their mean losses the mean over the batch.

        1.0 unless the next batch is cut in uneven slices.
        """
        plan, batch = self._current().plan, self._current().next_batch()
        return len(plan.examples(batch)) * self.num_replicas / plan.batch_length(batch)

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """The place in the run as plain tensors and numbers, fit for `torch.load(..., weights_only=True)`.

        It counts the batches that `step` consumed or, where `step` was never called, those handed out: with
        workers that prefetch, call `step`. With several processes call it on all of them and save it on one: it
        is the same on all, and fits any number of processes.
        """
        current = self._current()
        plan, consumed = current.plan, self._num_consumed()
        if self._ranks.is_connected:
            self._ranks.agree("the place in the run", epoch=plan.epoch, consumed=consumed, order=plan.fingerprint)
        self._memory.settle()
        return SamplerState(
            num_examples=self.num_examples,
            batch_size=self.batch_size,
            seed=self.seed,
            epoch=plan.epoch,
            consumed=consumed,
            is_stepped=self._is_stepped,
            sequence=plan.sequence,
            planned_steps=self._steps.state(),
            source_epoch=current.source_epoch,
            source_scores=current.source_scores,
            remembered_scores=self._memory.known(),
            weights=plan.weights,
            learned=self._learner.state(),
        ).to_dict()

    def _num_consumed(self) -> int:
        iteration = self._current().iteration
        return iteration.consumed if self._is_stepped else iteration.issued

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called: the next iteration gives exactly the batches that were left.

        The planned epoch comes from the state, later ones from this sampler's own settings.
        """
        loaded = SamplerState.from_dict(
            state, num_examples=self.num_examples, batch_size=self.batch_size, seed=self.seed
        )
        plan = self._planner.plan_of(loaded.epoch, loaded.sequence, loaded.weights)
        learner = self._planner.ordering.learner(self.num_examples)
        learner.load(loaded.learned)
        place = Iteration.starting_at(loaded.consumed)
        self._learner = learner
        self._memory.restore(loaded.remembered_scores)
        self._is_stepped = loaded.is_stepped
        self._steps.load(loaded.planned_steps)
        self._adopt(CurrentEpoch(plan, loaded.source_epoch, loaded.source_scores, place, is_resuming=True))


def _as_dataset(dataset_or_length: Any) -> Dataset[Any]:  # noqa: ANN401 - any map-style dataset
    """A number as the data set of the numbers below it, which is all that the base class asks for."""
    return range(dataset_or_length) if isinstance(dataset_or_length, Integral) else dataset_or_length  # type: ignore[return-value]


def _default_rank(num_replicas: int) -> int:
    """This process's rank; a sampler for one process is whole, whatever process group there is."""
    return 0 if num_replicas == 1 else own_rank()
