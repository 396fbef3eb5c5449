"""The recommended sampler: skip examples that the model already fits, using the losses of the training step."""

import math
from dataclasses import dataclass
from typing import Any

from gradorder import checks
from gradorder.orderings import PlackettLuce, Revisiting, Undecided, Unlearned
from gradorder.sampler import OrderedSampler

_TEMPERATURE = 0.5
"""Values from 0.25 to 2 were tried, with budgets from 0.4 to 0.8. None was significantly better."""

_EVERY = 8
"""Every example is visited at least once in this many epochs. 4 and no limit were tried and were not better."""

_COMPLETE_PART = 0.1
"""The fraction of epochs at the end that are complete. Values from 0 to 0.3 were tried. None was better."""


def recommended(
    dataset_or_length: Any,  # noqa: ANN401 - any map-style dataset
    batch_size: int = 128,
    *,
    epochs: int,
    budget: float | None = None,
    labels: Any = "auto",  # noqa: ANN401 - anything array-like
    seed: int = 0,
    drop_last: bool = False,
    num_replicas: int | None = None,
    rank: int | None = None,
    verbose: bool = False,
) -> OrderedSampler:
    """Return a sampler that skips the examples your network already fits, using the losses you already compute.

    Every epoch is shuffled and skips the examples that were fitted at their last visit: their loss was below a quarter
    of the mean loss (`Unlearned`). Fitted examples come back every fourth epoch. If they are no longer fitted then, the
    sampler skips less, or nothing. So it is safe for regression and other losses that are not probabilities. The losses
    come from the training step itself, so there is no extra forward pass::

        sampler = go.recommended(dataset, batch_size=128, epochs=epochs)
        loader = sampler.loader(dataset)
        scheduler = go.ProgressLR(optimizer, sampler)
        for epoch in sampler.run():
            for inputs, targets in loader:
                losses = F.cross_entropy(model(inputs), targets, reduction="none")
                ...
                sampler.step(losses.detach())
                scheduler.step()

    `sampler.run()` aims at the accuracy of `epochs` plain epochs for fewer gradients. Its epochs are shorter, and part
    of the saving pays for further ones. `for epoch in range(epochs)` with `sampler.set_epoch(epoch)` computes fewer
    gradients still, and often ends at a lower accuracy.

    If the dataset shows its labels without loading an example, batches are stratified: every batch holds its share of
    each class. If no example is fitted, the order is exactly that of (stratified) random reshuffling.

    The number of steps of the run is not known in advance, so let the learning rate follow `sampler.progress`, as
    `ProgressLR` does. If the training loss is smoothed or weighted, pass the plain loss to `step`.

    With a `budget`, the number of gradients is fixed in advance. The first epoch and the last tenth of the epochs (at
    least one) are complete and random. The other epochs draw a part of the examples without replacement and shuffle it.
    Examples about which the model was undecided at their last visit are the most likely ones (`Undecided`). Use a
    budget if the number of gradients is limited. Without one, you need not choose a number.

    docs/benchmark.md shows what was measured.

    Args:
        dataset_or_length: a map-style dataset, or the number of examples.
        batch_size: the number of examples in one training step, over all processes together.
        epochs: the number of epochs of the run. With a budget, runs of one to three epochs may be too short to save
            anything; then all epochs are complete.
        budget: the number of example gradients relative to `epochs` complete epochs, in (0, 1]; 1 is plain random
            reshuffling.
        labels: one label per example, for stratified batches. "auto" takes them from the dataset's `targets` or
            `labels`, an integer second column of a `TensorDataset`, or an integer column `label` or `labels` of a
            Hugging Face dataset, also through `Subset`, if there are 2 to N/8 classes. None turns it off.
        seed: the seed of all randomness.
        drop_last: drop an incomplete last batch.
        num_replicas: the number of processes; defaults to the size of the default process group.
        rank: the rank of this process.
        verbose: print one line for each epoch: how many examples it visits.

    Raises:
        ValueError: the complete epochs alone exceed the budget, or leave less than a batch for each other epoch.

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
        verbose=verbose,
    )


def _budgeted(epochs: int, budget: float, num_examples: int, batch_size: int) -> dict[str, Any]:
    """Return the arguments of the sampler that depend on the budget."""
    keep = BudgetedKeep(epochs, budget)
    num_kept = math.ceil(keep.partial * num_examples)
    if num_kept < batch_size < num_examples:  # if one batch holds all examples, every epoch is one step
        raise ValueError(
            f"budget must leave at least a batch of {batch_size} examples for every epoch, got {budget}, which leaves "
            f"{num_kept} of {num_examples} for the epochs that are not complete. Use a larger budget"
        )
    every = max(_EVERY, math.ceil(1 / keep.partial))
    return {
        "ordering": Revisiting(Undecided(PlackettLuce(_TEMPERATURE)), every=every),
        "layout": "shuffled",
        "keep": keep,
    }


@dataclass(frozen=True)
class BudgetedKeep:
    """The fraction of each epoch to keep, so that the run costs `budget` times as much as complete epochs.

    The first epoch and the last tenth of the epochs (at least one) are complete; the others share the rest of the
    budget equally. If a run of one to three epochs has no budget to share, all its epochs are complete.
    """

    epochs: int
    budget: float

    def __post_init__(self) -> None:
        checks.integer("epochs", self.epochs, minimum=1)
        checks.fraction("budget", self.budget)
        if self.budget < 1 and self.budget * self.epochs <= self._num_complete and not self._is_too_short:
            raise ValueError(
                f"budget must be more than {self._num_complete / self.epochs:.2g} with epochs={self.epochs}, because "
                f"{self._num_complete} of them are complete, got {self.budget}"
            )

    @property
    def _num_last(self) -> int:
        """The number of complete epochs at the end."""
        return max(1, round(_COMPLETE_PART * self.epochs))

    @property
    def _num_complete(self) -> int:
        return min(self.epochs, 1 + self._num_last)

    @property
    def _is_too_short(self) -> bool:
        """Whether at most one epoch is not complete and the budget leaves nothing for it."""
        return self.epochs - self._num_complete <= 1 and self.budget * self.epochs <= self._num_complete

    @property
    def partial(self) -> float:
        """The fraction that the other epochs keep."""
        num_partial = self.epochs - self._num_complete
        if self.budget == 1 or num_partial == 0 or self._is_too_short:
            return 1.0
        return (self.budget * self.epochs - self._num_complete) / num_partial

    def __call__(self, epoch: int) -> float:
        """Return the fraction of this epoch; epochs after the end of the run are complete."""
        is_complete = epoch == 0 or epoch >= self.epochs - self._num_last
        return 1.0 if is_complete else self.partial
