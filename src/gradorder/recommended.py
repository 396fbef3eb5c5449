"""The sampler to start with: the same epochs without what is learned, for a part of the cost and no extra pass."""

import math
from dataclasses import dataclass
from typing import Any

from gradorder import checks
from gradorder.orderings import PlackettLuce, Revisiting, Undecided, Unlearned
from gradorder.sampler import OrderedSampler

_TEMPERATURE = 0.5
"""0.25 to 2 were tried, at 0.4 to 0.8 of the gradients: none was better beyond noise."""

_EVERY = 8
"""Epochs after which an example comes back at the latest: 4 and never were tried, and were no better."""

_COMPLETE_PART = 0.1
"""Of the epochs, at the end: 0 to 0.3 were tried, and no other was better."""


def recommended(
    dataset_or_length: Any,  # noqa: ANN401 - any map-style dataset
    batch_size: int = 128,
    *,
    epochs: int,
    budget: float | None = None,
    labels: Any = None,  # noqa: ANN401 - anything array-like
    seed: int = 0,
    drop_last: bool = False,
    num_replicas: int | None = None,
    rank: int | None = None,
) -> OrderedSampler:
    """A sampler that leaves out of every epoch what the model has learned, as its losses in training tell.

    Every epoch is random reshuffling without the examples that were learned when they were seen last (`Unlearned`):
    those whose label had a probability of 0.85 or more, and whose loss was small beside the others'. They come back
    every fourth epoch. Where losses show that labels are wrong, what looks wrong comes every third epoch. The saving is
    what the data allows; where nothing is learned, it is random reshuffling, to the bit. Losses come from the training
    step itself, so there is no extra pass::

        sampler = go.recommended(dataset, batch_size=128, epochs=epochs)
        loader = sampler.loader(dataset)
        scheduler = go.ProgressLR(optimizer, sampler)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for inputs, targets in loader:
                losses = F.cross_entropy(model(inputs), targets, reduction="none")
                ...
                sampler.step(losses.detach())
                scheduler.step()

    How many steps a run has shows as it goes: let the step size follow `sampler.progress`, as `ProgressLR` does. Where
    the training loss is smoothed or weighted, give `step` the plain one.

    With a `budget` the total is fixed beforehand. The first epoch is complete and random, and so are the last tenth of
    the epochs (at least one). In between, a part of the examples is drawn without replacement, the more likely the less
    the model had made up its mind about them when it saw them last (`Undecided`), and shuffled. It wins where only so
    many gradients can be had; without it nobody needs to know how many are enough.

    What was gained and where nothing was is measured in docs/comparison.md.

    Args:
        dataset_or_length: a map-style dataset, or the number of examples.
        batch_size: examples in one training step, over all processes together.
        epochs: of the whole run. With a budget, one to three may be too few to save anything, then all are complete.
        budget: example gradients, as a share of `epochs` complete ones, in (0, 1]; 1 is plain random reshuffling.
        labels: one label per example, for class-balanced batches.
        seed: of all randomness.
        drop_last: leave out a last batch that is not full.
        num_replicas: number of processes; that of the default process group if not given.
        rank: this process.

    Raises:
        ValueError: the complete epochs alone take more than the budget, or leave less than a batch to the others.

    Example:
        >>> sampler = recommended(1000, batch_size=100, epochs=10, budget=0.6)
        >>> [sampler.num_steps(epoch, epoch + 1) for epoch in range(10)]
        [10, 5, 5, 5, 5, 5, 5, 5, 5, 10]
    """
    checks.integer("epochs", epochs, minimum=1)
    num_examples = checks.num_examples_of("dataset_or_length", dataset_or_length)
    checks.integer("batch_size", batch_size, minimum=1)
    return OrderedSampler(
        dataset_or_length,
        batch_size,
        **({"ordering": Unlearned()} if budget is None else _budgeted(epochs, budget, num_examples, batch_size)),
        labels=labels,
        start_epoch=1,
        seed=seed,
        drop_last=drop_last,
        num_replicas=num_replicas,
        rank=rank,
        epochs=epochs,
    )


def _budgeted(epochs: int, budget: float, num_examples: int, batch_size: int) -> dict[str, Any]:
    """What of the sampler is due to a budget."""
    keep = BudgetedKeep(epochs, budget)
    num_kept = math.ceil(keep.partial * num_examples)
    if num_kept < batch_size < num_examples:  # where all are one batch, every epoch is one step
        raise ValueError(
            f"budget must leave a batch of {batch_size} examples at least to every epoch, got {budget}, which leaves "
            f"{num_kept} of {num_examples} to those between the complete ones"
        )
    every = max(_EVERY, math.ceil(1 / keep.partial))
    return {
        "ordering": Revisiting(Undecided(PlackettLuce(_TEMPERATURE)), every=every),
        "layout": "shuffled",
        "keep": keep,
    }


@dataclass(frozen=True)
class BudgetedKeep:
    """The part of each epoch to keep, so that all epochs together cost `budget` times as much as complete ones.

    The first epoch is complete, as are the last tenth, at least one; the others share what is left. A run of one to
    three epochs that leaves nothing to share is complete.
    """

    epochs: int
    budget: float

    def __post_init__(self) -> None:
        checks.integer("epochs", self.epochs, minimum=1)
        checks.fraction("budget", self.budget)
        if self.budget < 1 and self.budget * self.epochs <= self._num_complete and not self._is_too_short:
            raise ValueError(
                f"budget must be more than {self._num_complete / self.epochs:.2g} with epochs={self.epochs}, as "
                f"{self._num_complete} of them are complete, got {self.budget}"
            )

    @property
    def _num_last(self) -> int:
        """Complete epochs at the end."""
        return max(1, round(_COMPLETE_PART * self.epochs))

    @property
    def _num_complete(self) -> int:
        return min(self.epochs, 1 + self._num_last)

    @property
    def _is_too_short(self) -> bool:
        """Whether at most one epoch lies between the first and the last: too little to save anything on."""
        return self.epochs - self._num_complete <= 1 and self.budget * self.epochs <= self._num_complete

    @property
    def partial(self) -> float:
        """What the epochs in between keep."""
        num_partial = self.epochs - self._num_complete
        if self.budget == 1 or num_partial == 0 or self._is_too_short:
            return 1.0
        return (self.budget * self.epochs - self._num_complete) / num_partial

    def __call__(self, epoch: int) -> float:
        """Of this epoch; epochs beyond the last are complete."""
        is_complete = epoch == 0 or epoch >= self.epochs - self._num_last
        return 1.0 if is_complete else self.partial
