"""The sampler: plans each epoch, hands it out, and counts what training has used of it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any, final

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from gradorder import checks
from gradorder.orderings import Ordering
from gradorder.ranks import Ranks, world_size
from gradorder.sampler.current import CurrentEpoch
from gradorder.sampler.followers import tell_followers
from gradorder.sampler.history import HALF, History, Recorder
from gradorder.sampler.labels import Classes
from gradorder.sampler.layout import Layout
from gradorder.sampler.loading import loader_of
from gradorder.sampler.planner import EpochPlanner, Keep
from gradorder.sampler.run import Run, Scores
from gradorder.sampler.run_length import RunLength
from gradorder.sampler.state import SamplerState


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
        epochs: of the whole run, for `progress`; nothing else depends on it. An epoch beyond them is warned about.

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
    ) -> None:
        self.num_examples = checks.num_examples_of("dataset_or_length", dataset_or_length)
        self.batch_size = checks.integer("batch_size", batch_size, minimum=1)
        self._follows_process_group = num_replicas is None
        ranks = Ranks.sharing(self.batch_size, num_replicas, rank)
        super().__init__(
            _as_dataset(dataset_or_length),
            num_replicas=ranks.num,
            rank=ranks.rank,
            shuffle=False,
            seed=checks.integer("seed", seed, minimum=0),
            drop_last=bool(drop_last),
        )
        planner = EpochPlanner(
            num_examples=self.num_examples,
            batch_size=self.batch_size,
            ordering=ordering,
            classes=None if labels is None else Classes.of(labels, dataset_or_length, self.num_examples),
            layout=layout,
            keep=keep,
            start_epoch=checks.integer("start_epoch", start_epoch, minimum=0),
            seed=self.seed,
            drop_last=self.drop_last,
            num_replicas=ranks.num,
            rank=ranks.rank,
        )
        self._run = Run(planner, ranks)
        self.epochs = None if epochs is None else checks.integer("epochs", epochs, minimum=1)
        self._length = None if self.epochs is None else RunLength(planner, self.epochs)

    def __repr__(self) -> str:
        """What it will do."""
        return f"OrderedSampler({self._run.planner})"

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
            UnknownStepsError: an epoch is not planned yet, and the ordering decides only then what to leave out.
        """
        checks.integer("first_epoch", first_epoch, minimum=0)
        checks.integer("last_epoch", last_epoch, minimum=first_epoch)
        return sum(self._run.steps.of(epoch) for epoch in range(first_epoch, last_epoch))

    @property
    def steps_left(self) -> int:
        """The training steps of the current epoch that were not consumed yet (without `step`: not handed out)."""
        return self._current().plan.num_batches - self._run.num_consumed

    @property
    def progress(self) -> float:
        """The part of the run that is behind, from 0 to 1: what step sizes can follow, see `go.ProgressLR`.

        By steps. Where the ordering decides epoch by epoch what to leave out, every epoch is the same part of the run.

        Raises:
            ValueError: the sampler was not told how many `epochs` the run has.
        """
        if self._length is None:
            raise ValueError("epochs must be given to the sampler for its progress, got None")
        plan = self._current().plan
        return self._length.behind(plan.epoch, self._run.num_consumed / plan.num_batches)

    @property
    def needs_scores(self) -> bool:
        """True if the ordering needs scores, from `set_epoch` or from `step`."""
        return self._run.planner.ordering.needs_scores

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
        if self._follows_process_group and world_size() != self.num_replicas:
            raise RuntimeError(
                f"the sampler was built for {self.num_replicas} processes and now there are {world_size()}: "
                "build it after torch.distributed is initialised"
            )
        self._run.enter(epoch, scores)
        self._current()
        tell_followers(self)
        if self.epochs is not None and epoch >= self.epochs:
            self._run.notices.beyond_the_end(epoch, self.epochs)

    def _current(self) -> CurrentEpoch:
        current = self._run.current()
        # What DistributedSampler keeps, for those who read it.
        self.epoch = current.plan.epoch
        self.num_samples = current.plan.num_examples_of_rank
        self.total_size = len(current.plan.sequence)
        return current

    # ---------------------------------------------------------------- iterating

    def loader(self, dataset: Dataset[Any] | None = None, **settings: Any) -> DataLoader[Any]:  # noqa: ANN401 - DataLoader's
        """A `DataLoader` over the dataset in this order; `settings` are DataLoader's, all but batch size and order.

        It tells the sampler which batches training has got, so that no `step` that is missing goes unnoticed.
        """
        data = self.dataset if dataset is None else dataset
        sizes = {"num_examples": self.num_examples, "batch_size": self.loader_batch_size}
        return loader_of(self, self._run, data, **sizes, settings=settings)

    def __iter__(self) -> Iterator[int]:
        """The current epoch from its first batch; after `load_state_dict`, once, from the loaded place.

        Only to look at a batch does not count: until `step` is called or an iteration came to its end, the next one
        starts at the loaded place, too.
        """
        return chain.from_iterable(self._run.batches(self._current()))

    # ---------------------------------------------------------------- consuming

    def step(
        self,
        scores: torch.Tensor | None = None,
        *,
        indices: Sequence[int] | torch.Tensor | None = None,
        gradients: torch.Tensor | None = None,
        margins: torch.Tensor | None = None,
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
            margins: `go.margins(logits, targets)`, for the history, if it is recorded.

        Raises:
            StepError: no batch was issued for it, or the examples are not those of the batch.
        """
        self._run.step(scores, indices, gradients, margins)

    @property
    def weights(self) -> torch.Tensor:
        """The weights of the batch that the next `step` consumes, one per example, as float32 on the CPU.

        Ones, unless the ordering gives weights: then train on `sampler.weigh(losses).mean()`, and give `step` the
        losses without them.
        """
        return self._current().next_weights()

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
        return self._current().loss_scale()

    # ---------------------------------------------------------------- history

    def record_history(self, learned_below: float = HALF) -> None:
        """From now on, keep a few numbers about every example: see `history`, and `go.data_report`.

        What was recorded so far stays, also what `load_state_dict` brought.

        Args:
            learned_below: the loss below which an example is learned, where `step` is not given margins: by default
                that of a label with half of the probability.
        """
        checks.positive("learned_below", learned_below)
        recorded = self._run.history
        if recorded is None:
            self._run.history = Recorder(self.num_examples, self._run.ranks, learned_below)
        elif recorded.learned_below != learned_below:
            raise ValueError(
                f"learned_below must be {recorded.learned_below:g}, with which the history was recorded so far, "
                f"got {learned_below:g}"
            )

    @property
    def history(self) -> History | None:
        """What `step` was told of every example, a number for each; None unless `record_history` was called.

        What may belong to another example, as a batch was skipped without `step`, is left out. With several processes
        it is as the last `set_epoch` or `state_dict` left it.
        """
        return self._run.seen()

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """The place in the run as plain tensors and numbers, fit for `torch.load(..., weights_only=True)`.

        It counts the batches that `step` consumed; an iteration without `step` changes nothing. Where `step` was never
        called, it counts those handed out: with workers that prefetch, call `step`. Scores that may belong to other
        examples, as the first batch was skipped without `step`, are left out. With several processes call it on all of
        them and save it on one: it is the same on all, and fits any number of processes.
        """
        return self._run.state().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called: the next iteration gives exactly the batches that were left.

        The planned epoch comes from the state, later ones from this sampler's own settings.
        """
        own = {"num_examples": self.num_examples, "batch_size": self.batch_size, "seed": self.seed}
        self._run.load(SamplerState.from_dict(state, **own))
        self._current()
        tell_followers(self)


def _as_dataset(dataset_or_length: Any) -> Dataset[Any]:  # noqa: ANN401 - any map-style dataset
    """A number as the data set of the numbers below it, which is all that the base class asks for."""
    return range(dataset_or_length) if isinstance(dataset_or_length, Integral) else dataset_or_length  # type: ignore[return-value]
