"""The sampler: plans each epoch, hands it to a loader, and learns from the steps of training."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any, Protocol, final
from weakref import WeakSet

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from gradorder import checks
from gradorder.diagnostics.history import HALF, History, Recorder
from gradorder.errors import StepError
from gradorder.orderings import Order, Ordering
from gradorder.orderings.ordering import epoch_generator
from gradorder.ranks import Ranks, own_rank, world_size
from gradorder.sampler.compact import compact, expanded
from gradorder.sampler.labels import Classes
from gradorder.sampler.length import RunLength, Visits
from gradorder.sampler.loader import evaluation_loader_of, loader_of
from gradorder.sampler.memory import ScoreMemory
from gradorder.sampler.notices import Notices
from gradorder.sampler.plan import EpochPlan, EpochPlanner, Keep
from gradorder.sampler.position import Pass, Position
from gradorder.sampler.state import SamplerState
from gradorder.sampler.stratified import Layout
from gradorder.sampler.summary import Summary, timed

Scores = torch.Tensor | Callable[[], torch.Tensor]
"""One number per example of the dataset, or a function that computes them when they are needed."""

_LOADER_STREAM = 2
"""Separates the random numbers of a loader's workers from those of the order and the layout."""


class Follower(Protocol):
    """An object that depends on the position of a sampler, for example a learning-rate scheduler."""

    def follow(self) -> None:
        """React to a position that changed without `step`: a new epoch, or a loaded state."""


@final
class OrderedSampler(DistributedSampler[int]):
    """Hands a `DataLoader` the examples of each epoch in the order that an ordering gives.

    It decides three things for every epoch: the order (from scores), the part of it that is kept, and the batches. It
    knows neither model nor loss.

    Args:
        dataset_or_length: a map-style dataset, or the number of examples.
        batch_size: examples per training step, over all processes together.
        ordering: the rule from scores to order. There is no default; start with `go.recommended`.
        labels: one label per example, True for the dataset's own labels, or "auto" for the dataset's own labels if it
            has any that look like classes. With labels, batches are stratified: every batch holds its share of each
            class, to within one.
        layout: "contiguous", the order as given. For orderings by score also "dealt" (position i goes to batch i mod
            num_batches, so every batch has the same spread of difficulty) and "shuffled" (the kept part in random
            order: scores decide which examples are visited, but not when).
        keep: the fraction of each epoch to train on, or a function from epoch to fraction: the first ceil(keep * n) of
            the order, with labels the first ceil(keep * n_c) of each class.
        start_epoch: earlier epochs are random and complete; from this one on they are ordered and kept in part.
        seed: the seed of all randomness. Two samplers with the same seed give the same epochs.
        drop_last: drop a last batch that is not full.
        num_replicas: number of processes; by default that of the default process group.
        rank: the rank of this process.
        epochs: the number of epochs of the run, for `progress` and `run`, and to check a function `keep` at
            construction. An epoch beyond it gives a warning.
        verbose: print one line for each epoch: how many examples it visits.

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
        epochs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.num_examples = checks.num_examples_of("dataset_or_length", dataset_or_length)
        self.batch_size = checks.integer("batch_size", batch_size, minimum=1)
        self._follows_process_group = num_replicas is None
        self._ranks = Ranks.sharing(self.batch_size, num_replicas, rank)
        super().__init__(
            _as_dataset(dataset_or_length),
            num_replicas=self._ranks.num,
            rank=self._ranks.rank,
            shuffle=False,
            seed=checks.integer("seed", seed, minimum=0),
            drop_last=bool(drop_last),
        )
        self._planner = EpochPlanner(
            num_examples=self.num_examples,
            batch_size=self.batch_size,
            ordering=ordering,
            classes=Classes.of(labels, dataset_or_length, self.num_examples),
            layout=layout,
            keep=keep,
            start_epoch=checks.integer("start_epoch", start_epoch, minimum=0),
            seed=self.seed,
            drop_last=self.drop_last,
            num_replicas=self._ranks.num,
            rank=self._ranks.rank,
            epochs=epochs,
        )
        self._length = RunLength(self._planner)
        self._memory = ScoreMemory(self.num_examples, self._ranks)
        self._run = self._planner.new_run()
        self._recorder: Recorder | None = None
        self._notices = Notices(self._planner.start_epoch)
        self._followers: WeakSet[Follower] = WeakSet()
        self._is_stepped = False
        self._last_compacted: tuple[EpochPlan, dict[str, torch.Tensor | int]] | None = None
        self._verbose = bool(verbose)
        self._printed = -1
        self.seconds = 0.0
        """Time spent in `set_epoch` and `step`; see `summary`."""
        self._enter(Position(self._planner.plan(0, None, self._run)))

    def __repr__(self) -> str:
        return f"OrderedSampler({self._planner})"

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no followers: they belong to the original, and weak references cannot be pickled."""
        return {**self.__dict__, "_followers": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _followers=WeakSet())

    # ---------------------------------------------------------------- sizes

    @property
    def loader_batch_size(self) -> int:
        """The batch size for this process's `DataLoader`."""
        return self.batch_size // self.num_replicas

    def __len__(self) -> int:
        """The number of examples of the current epoch for this process."""
        return self._position.plan.num_examples_of_rank

    @property
    def epochs(self) -> int | None:
        """The number of epochs of the run, if it was given."""
        return self._planner.epochs

    @property
    def needs_scores(self) -> bool:
        """Whether the ordering needs scores, from `set_epoch` or from `step`."""
        return self._planner.ordering.needs_scores

    def num_steps(self, first_epoch: int, last_epoch: int) -> int:
        """Return the training steps of the epochs `range(first_epoch, last_epoch)`, for learning-rate schedules.

        An epoch that is not planned yet counts as it will be with scores. If scores come only from `step`, the first
        epoch has none and is complete: build the sampler with `start_epoch=1`, or ask after `set_epoch(0)`.

        Raises:
            UnknownStepsError: an epoch is not planned yet, and its ordering decides only then how long it is.
        """
        checks.integer("first_epoch", first_epoch, minimum=0)
        checks.integer("last_epoch", last_epoch, minimum=first_epoch)
        return sum(self._length.steps_of(epoch) for epoch in range(first_epoch, last_epoch))

    @property
    def steps_left(self) -> int:
        """The training steps of the current epoch that are left (without `step`: the batches not handed out yet)."""
        return self._position.plan.num_batches - self._num_consumed

    @property
    def progress(self) -> float:
        """The finished part of the run, from 0 to 1, for learning rates that follow it; see `go.ProgressLR`.

        It counts steps. If the ordering decides epoch by epoch how many there are, every epoch is the same part of the
        run; in `run`, a shorter epoch is a smaller part.

        Raises:
            ValueError: the sampler was built without `epochs`.
        """
        plan = self._position.plan
        return self._length.progress(plan, self._num_consumed / plan.num_batches, self._run)

    @property
    def is_over(self) -> bool:
        """Whether the last epoch of the run is complete. Always False if the sampler was built without `epochs`."""
        return self.epochs is not None and self.steps_left == 0 and self._is_last

    @property
    def has_open_end(self) -> bool:
        """Whether the number of epochs is not known before the run is over, as in `run` if the ordering skips examples.

        Otherwise there are `epochs` of them.
        """
        return self._length.visits.is_counted and self._run.prunes

    @property
    def _is_last(self) -> bool:
        return self._length.is_last(self._position.plan, self._run)

    def summary(self) -> Summary:
        """Return how many examples each epoch so far visited and skipped, and the time spent in the sampler."""
        self._length.enter(self._position.plan)
        return Summary(self._planner.num_complete, self._length.examples_per_epoch, self.seconds)

    @property
    def _num_consumed(self) -> int:
        return self._position.steps if self._is_stepped else self._position.num_used

    # ---------------------------------------------------------------- planning

    def run(self) -> Iterator[int]:
        """Plan the epochs of the run one after the other, and yield their numbers.

        In a training loop::

            for epoch in sampler.run():
                for batch in loader:
                    ...
                    sampler.step(losses.detach())

        If the ordering skips examples (`go.recommended`), a shorter epoch counts as less than one epoch, so there are
        more than `epochs` of them. The run aims at the accuracy of `epochs` complete epochs, and never computes more
        gradients than they do. With `for epoch in range(epochs)` there are `epochs` epochs: fewer gradients, and often
        a lower accuracy. If no example is skipped, both are the same.

        After `load_state_dict`, it continues with the epoch of the loaded position.

        Raises:
            ValueError: the sampler was built without `epochs`.
        """
        self.start_run()
        return self._epochs_left()

    def start_run(self) -> None:
        """Let the run end when `progress` is 1, as in `run`, for a loop that plans its epochs itself.

        Such a loop calls `set_epoch` for every epoch, and ends when `is_over` is true.
        """
        self._length.start(self.epoch)

    def _epochs_left(self) -> Iterator[int]:
        if self.is_over:
            return
        self.set_epoch(self.epoch + (self.steps_left == 0))
        yield self.epoch
        while not self._is_last:
            self.set_epoch(self.epoch + 1)
            yield self.epoch

    @timed
    def set_epoch(self, epoch: int, scores: Scores | None = None) -> None:
        """Plan an epoch.

        Args:
            epoch: 0, 1, 2, ...
            scores: one number per example, or a function that returns them and is called only if this epoch needs
                scores. They order this epoch and replace all remembered scores. Without them the epoch is ordered by
                the scores remembered from `step`; if there are none, it is random and complete.

        For the current epoch, a call without scores changes nothing (frameworks may repeat it); a call with scores
        plans it again as long as no step was made. If it raises, nothing has changed.

        With several processes, call it on all of them: they bring their scores together and compare the orders.

        Raises:
            RankError: on all processes, if they do not agree on epoch or order, or if planning failed on one of them.
        """
        checks.integer("epoch", epoch, minimum=0)
        self._check_world_size()
        position = self._position
        if position.is_resuming and epoch < self.epoch:
            raise ValueError(
                f"epoch must be at least {self.epoch}, where load_state_dict resumes, got {epoch}. If a framework "
                "counts the epochs, use its plug-in in gradorder.integrations"
            )
        is_new = epoch != self.epoch
        replans = is_new or (scores is not None and position.steps == 0)
        if self._ranks.is_connected:
            order = 0 if replans else position.plan.fingerprint
            kind = 0 if scores is None else 1 + callable(scores)
            self._ranks.agree("the arguments of set_epoch", epoch=epoch, replans=replans, scores=kind, order=order)
        if replans:
            self._plan(epoch, scores, ended=position if is_new else None)
        self._length.enter(self._position.plan)
        self._tell_followers()
        if self._verbose and (replans or self._printed != epoch):  # epoch 0 was planned before
            # With num_replicas=1, as Accelerate needs it, the sampler has rank 0 on every process.
            if self.rank == own_rank() == 0:
                print(self.summary().line(epoch))  # noqa: T201 - on request
            self._printed = epoch
        if is_new and self._run.prunes:
            self._warn_about_a_floor()
        if self.epochs is not None and self._length.is_beyond(self._position.plan, self._run):
            self._notices.beyond_the_end(epoch, self.epochs)

    def _warn_about_a_floor(self) -> None:
        """Warn about smoothed losses if halfway through the run, when examples are fitted, no example is skipped."""
        is_halfway = self.epochs is not None and self.epoch == self.epochs // 2
        known = self._memory.known()
        if is_halfway and known is not None and self.total_size > self.num_examples - self.batch_size:
            self._notices.floor(known[~known.isnan()])

    def _check_world_size(self) -> None:
        if self._follows_process_group and world_size() != self.num_replicas:
            raise RuntimeError(
                f"the sampler was built for {self.num_replicas} processes and now there are {world_size()}: "
                "build it after torch.distributed is initialised"
            )

    def _plan(self, epoch: int, scores: Scores | None, ended: Position | None) -> None:
        """Plan an epoch. Everything that can fail comes first, then everything that changes."""
        with self._ranks.failing_together(f"planning epoch {epoch}"):
            self._memory.settle()
            if self._recorder is not None:
                self._recorder.gather()
            discarded = torch.empty(0, dtype=torch.int64) if ended is None else ended.discarded()
            run = copy.copy(self._run)
            if ended is not None:
                is_due = ended.num_used > 0 and self._planner.is_ordered(ended.plan.epoch)
                run.end_epoch(ended.plan.epoch, len(ended.plan.sequence), is_due=is_due)
            given = self._given_scores(scores, is_needed=self._planner.is_ordered(epoch) and run.needs_scores(epoch))
            plan = self._planner.plan(epoch, self._memory.known_without(discarded) if given is None else given, run)
        if self._ranks.is_connected:
            self._ranks.agree(f"the order of epoch {epoch}", order=plan.fingerprint)
        if given is None:
            self._memory.forget(discarded)
        else:
            self._memory.restore(given)
        if ended is not None:
            self._finish(ended, discarded)
            self._length.leave(ended.plan, self._run)
        self._run = run
        self._enter(Position(plan))

    def _given_scores(self, scores: Scores | None, *, is_needed: bool) -> torch.Tensor | None:
        if callable(scores):
            scores = scores() if is_needed else None
        return None if scores is None else checks.finite_scores(scores, self.num_examples).cpu()

    def _finish(self, ended: Position, discarded: torch.Tensor) -> None:
        """Settle the history of an epoch that ends, and warn if its steps do not match its batches."""
        if self._recorder is not None:
            self._recorder.settle(discarded)
        if len(discarded) > 0:
            delivered = ended.plan.num_batches if ended.latest is None else ended.latest.delivered
            self._notices.scores_discarded(ended.plan.epoch, ended.steps, delivered, len(discarded))

    def _enter(self, position: Position) -> None:
        """Make this the current epoch, also in the attributes of `DistributedSampler`."""
        self._position = position
        self.epoch = position.plan.epoch
        self.num_samples = position.plan.num_examples_of_rank
        self.total_size = len(position.plan.sequence)

    def add_follower(self, follower: Follower) -> None:
        """Tell this object whenever the position changes without `step`, as long as the object exists."""
        self._followers.add(follower)

    def _tell_followers(self) -> None:
        for follower in list(self._followers):
            follower.follow()

    # ---------------------------------------------------------------- iterating

    def loader(self, dataset: Dataset[Any] | None = None, **settings: Any) -> DataLoader[Any]:  # noqa: ANN401 - DataLoader's
        """Return a `DataLoader` over the dataset in this order; `settings` are DataLoader's own.

        Batch size and order cannot be set: the sampler decides them. The loader counts the batches that training
        receives, so a missing `step` is noticed also if the epoch is left early. Its workers are seeded by the sampler,
        so it draws nothing from the global random state.

        It visits only the examples of the current epoch. For the training accuracy use `evaluation_loader`.
        """
        return loader_of(self, self.dataset if dataset is None else dataset, settings)

    def evaluation_loader(self, dataset: Dataset[Any] | None = None, **settings: Any) -> DataLoader[Any]:  # noqa: ANN401 - DataLoader's
        """Return a `DataLoader` over all examples in the order of the dataset, without any effect on the sampler.

        On every process it gives all examples. `settings` are DataLoader's own, except those of the order.
        """
        return evaluation_loader_of(self, self.dataset if dataset is None else dataset, settings)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the current epoch from its first batch; after `load_state_dict`, once, from the loaded position.

        Looking at a batch does not count: until `step` is called or an iteration comes to its end, the next iteration
        starts at the loaded position, too.
        """
        return chain.from_iterable(self._batches(self._position))

    def _batches(self, position: Position) -> Iterator[list[int]]:
        if position is self._position:
            self._warn_at_the_beginning(position.plan)
        current = position.begin()
        for number, batch in enumerate(position.plan.batches(current.start)):
            self._check_is_latest(current)
            current.issued += 1
            yield [_First(batch[0]), *batch[1:]] if number == 0 else batch

    def _warn_at_the_beginning(self, plan: EpochPlan) -> None:
        """Warn about the plan of an epoch when it begins: until then, scores may still be given for it."""
        epoch = plan.epoch
        announced = self._length.broken_announcement(plan)
        if announced is not None:
            self._notices.steps_changed(epoch, plan.num_batches, announced)
        elif self._planner.is_ordered(epoch) and self.needs_scores and self._memory.is_empty:
            keep = self._planner.fraction(epoch)
            if keep < 1 or epoch > 0:  # the losses of epoch 0 may be about to come
                self._notices.no_scores(epoch, self._planner.ordering, keep)
        self._length.enter(plan)

    def _check_is_latest(self, each: Pass) -> None:
        position = each.position
        if each is not position.latest and position is self._position and self._is_stepped:
            raise StepError(
                f"two loaders iterate over one sampler at the same time: another one began epoch {self.epoch} after "
                f"batch {each.issued} was handed out here. Give the second loader a sampler of its own"
            )

    @property
    def latest_pass(self) -> Pass | None:
        """The last pass over the current epoch, for the sampler's own loader."""
        return self._position.latest

    def receive(self, each: Pass) -> None:
        """Count a batch that training has received, for the sampler's own loader."""
        each.received = (each.start if each.received is None else each.received) + 1
        self._check_is_latest(each)

    def seed_loader(self, generator: torch.Generator) -> None:
        """Seed the generator of the sampler's own loader for the current epoch."""
        generator.manual_seed(epoch_generator(self.seed, self.epoch, _LOADER_STREAM).initial_seed())

    def warn_if_length_varies(self) -> None:
        """Warn if training has not begun and not all epochs have the same number of steps, for `len` of the loader."""
        last = self.epochs or self._planner.start_epoch + 1
        steps = [self._planner.known_steps(epoch) for epoch in range(last)]
        has_begun = len(self._length.state()) > 0
        if not has_begun and len({self._position.plan.num_batches, *steps}) > 1:
            known = [each for each in steps if each is not None]
            total = sum(known) if self.epochs is not None and len(known) == last else None
            self._notices.length_varies(self._position.plan.num_batches, total)

    # ---------------------------------------------------------------- consuming

    @timed
    def step(
        self,
        scores: torch.Tensor | None = None,
        *,
        indices: Sequence[int] | torch.Tensor | None = None,
        gradients: torch.Tensor | None = None,
        margins: torch.Tensor | None = None,
    ) -> None:
        """Count a batch as used, and remember its scores if given.

        Call it once per batch, in the order of the batches, also for a batch that you skip: then without scores. The
        k-th step belongs to the k-th batch, whatever the loader prefetches. If a completely delivered epoch had another
        number of steps than batches, the next `set_epoch` discards its scores with a warning.

        With several processes each gives the scores of its own slice. They are brought together when the next epoch is
        planned. Scores on an accelerator are checked for NaN at the next `set_epoch` or `state_dict`, so the step does
        not wait for the device; scores on the CPU are checked here.

        Args:
            scores: one number for each example of the batch, for example its losses.
            indices: the examples of the batch, if the dataset returns them; they are compared with the plan.
            gradients: one row per example, for an ordering that learns from them.
            margins: `go.margins(logits, targets)`, for the history, if it is recorded.

        Raises:
            StepError: no batch was delivered for this step, or the indices are not those of its batch.
        """
        if margins is not None and (self._recorder is None or scores is None):
            raise ValueError("margins are for the history, beside the losses: call record_history() and give both")
        position, epoch = self._position, self.epoch
        batch, examples = position.check_step(indices)
        where = f"given to step for batch {batch} of epoch {epoch}"
        is_due = self._planner.is_ordered(epoch)
        rows = self._run.checked_gradients(f"gradients {where}", gradients, examples, is_due=is_due)
        if margins is not None:
            margins = checks.per_example(f"margins {where}", margins, len(examples)).detach()
        values = None if scores is None else torch.as_tensor(scores).detach()
        if values is not None:
            self._memory.remember(examples, checks.per_example(f"scores {where}", values, len(examples)))
        self._is_stepped = True
        is_repeated = position.step(is_verified=indices is not None)
        if batch == 0:
            self._run.begin_epoch()
        self._run.learn(examples, rows)
        if self._recorder is not None and values is not None:
            self._recorder.note(epoch, examples, values, margins)
        if is_repeated:
            self._notices.epoch_repeated(epoch)

    @property
    def weights(self) -> torch.Tensor:
        """The weights of the batch that the next `step` belongs to, one per example, as float32 on the CPU.

        They are 1 unless the ordering gives weights. Then train on `sampler.weigh(losses).mean()`, and give `step` the
        losses without them.
        """
        return self._position.plan.batch_weights(self._position.next_batch())

    def weigh(self, losses: torch.Tensor) -> torch.Tensor:
        """Return the losses of the batch that the next `step` belongs to, times its weights, on the losses' device."""
        weights = self.weights
        checks.per_example("losses", losses, len(weights))
        return losses * weights.to(losses.device, losses.dtype)

    @property
    def is_weighted(self) -> bool:
        """Whether the examples of the current epoch have weights that are not all 1."""
        return self._position.plan.weights is not None

    @property
    def loss_scale(self) -> float:
        """The factor that makes the mean over processes of their mean losses the mean over the batch.

        It is 1.0 unless the slices of the next batch are uneven.
        """
        return self._position.plan.loss_scale(self._position.next_batch())

    # ---------------------------------------------------------------- history

    def record_history(self, learned_below: float = HALF) -> None:
        """Record a few numbers about every example from now on; see `history` and `go.data_report`.

        A history that was recorded or loaded before is continued.

        Args:
            learned_below: the loss below which an example counts as learned, if `step` is given no margins; by default
                the loss of a label with probability 1/2.
        """
        checks.positive("learned_below", learned_below)
        if self._recorder is None:
            self._recorder = Recorder(self.num_examples, self._ranks, learned_below)
        elif self._recorder.learned_below != learned_below:
            raise ValueError(
                f"learned_below must be {self._recorder.learned_below:g}, as the history was recorded so far, got "
                f"{learned_below:g}"
            )

    @property
    def history(self) -> History | None:
        """The recorded history, one number per example in each column; None unless `record_history` was called.

        Visits of an epoch whose steps do not match its batches are dropped. With several processes it is as of the last
        `set_epoch` or `state_dict`.
        """
        return None if self._recorder is None else self._recorder.columns(without=self._position.discarded())

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the run as plain tensors and numbers, fit for `torch.load(..., weights_only=True)`.

        It counts the batches that `step` was called for. If `step` was never called, it counts the batches handed out;
        with workers that prefetch, call `step`. With several processes call it on all of them and save it on one: it is
        the same on all, and fits any number of processes.
        """
        plan = self._position.plan
        if self._ranks.is_connected:
            place = {"epoch": plan.epoch, "consumed": self._num_consumed, "order": plan.fingerprint}
            self._ranks.agree("the position in the run", **place)
        self._memory.settle()
        compacted = self._compacted()
        state = SamplerState(
            num_examples=self.num_examples,
            batch_size=self.batch_size,
            seed=self.seed,
            epoch=plan.epoch,
            consumed=self._num_consumed,
            is_stepped=self._is_stepped,
            sequence=plan.sequence[:0] if compacted else plan.sequence,
            planned_epochs=self._length.state(),
            is_run=self._length.visits.is_counted,
            worth=self._length.visits.worth,
            gradients=self._length.visits.gradients,
            repeats=plan.repeats,
            remembered_scores=self._memory.known(),
            weights=plan.weights,
            carried=self._run.state(),
            history={} if self._recorder is None else self._recorder.state(),
        ).to_dict()
        if compacted:
            del state["sequence"]
        return state | compacted

    def _compacted(self) -> dict[str, torch.Tensor | int]:
        """The entries that replace the sequence of the current epoch, found once per epoch: that takes a shuffle."""
        plan = self._position.plan
        if self._last_compacted is None or self._last_compacted[0] is not plan:
            self._last_compacted = plan, compact(self._planner, plan)
        return dict(self._last_compacted[1])

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where `state_dict` was called: the next iteration gives exactly the batches that were left.

        The current epoch comes from the state, later ones from this sampler's own settings. If it raises, nothing has
        changed.
        """
        own = {"num_examples": self.num_examples, "batch_size": self.batch_size, "seed": self.seed}
        if all(state.get(name) == value for name, value in own.items()):  # if not, from_dict says what differs
            state = expanded(self._planner, state)
        loaded = SamplerState.from_dict(state, **own)
        plan = self._planner.resumed(loaded.epoch, Order(loaded.sequence, loaded.weights, repeats=loaded.repeats))
        run = self._planner.new_run()
        run.load(loaded.carried)
        if loaded.history:
            self._recorder = Recorder.from_state(loaded.history, self.num_examples, self._ranks)
        elif self._recorder is not None:
            self._recorder = Recorder(self.num_examples, self._ranks, self._recorder.learned_below)
        self._run = run
        self._memory.restore(loaded.remembered_scores)
        self._is_stepped = loaded.is_stepped
        self._length.load(loaded.planned_epochs, Visits(loaded.is_run, loaded.worth, loaded.gradients))
        self._enter(Position(plan, loaded.consumed, is_loaded=True))
        self._tell_followers()


class _First(int):
    """The first index of a pass. It shows the right call to those who gave the sampler as a `batch_sampler`."""

    __slots__ = ()

    def __iter__(self) -> Iterator[int]:
        raise TypeError(
            "an OrderedSampler gives examples, not batches: write sampler.loader(dataset), or "
            "DataLoader(dataset, batch_size=sampler.loader_batch_size, sampler=sampler), without batch_sampler="
        )


def _as_dataset(dataset_or_length: Any) -> Dataset[Any]:  # noqa: ANN401 - any map-style dataset
    """Return a number as the dataset of the numbers below it; the base class needs no more."""
    return range(dataset_or_length) if isinstance(dataset_or_length, Integral) else dataset_or_length  # type: ignore[return-value]
