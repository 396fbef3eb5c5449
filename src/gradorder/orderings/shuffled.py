"""Orderings without scores: shuffle every epoch, shuffle once, or keep the order of the dataset."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder.orderings.ordering import Order, Ordering, Request, epoch_generator


@final
@dataclass(frozen=True)
class Shuffled(Ordering):
    """Shuffle the examples anew every epoch, as `shuffle=True` does: random reshuffling.

    Rule: sigma uniform over all permutations, independent from epoch to epoch.

    When: always, as the baseline of your comparison.

    Helps, theory: needs no scores and no assumptions about the data, and is hard to beat. It is the baseline of every
    comparison here.

    Hurts, theory: spends as much time on examples that the model already fits as on the others.

    Cost: one permutation of N per epoch.

    Reference: Mishchenko, Khaled and Richtarik (2020), Random Reshuffling: Simple Analysis with Vast Improvements.
    """

    needs_scores: ClassVar[bool] = False

    def order(self, request: Request) -> Order:
        """Return a new permutation."""
        return Order(request.kept(_permutation(request.num_examples, request.generator)))


@final
@dataclass(frozen=True)
class ShuffledOnce(Ordering):
    """Shuffle the examples once and use the same order in every epoch.

    Rule: sigma uniform over all permutations, the same in every epoch.

    When: your storage is fastest if every epoch reads the same order.

    Helps, theory: reads the data in the same order every epoch, which suits slow storage.

    Hurts, theory: an unfavourable order is used for the whole run.

    Cost: the same as Shuffled: the permutation is drawn again in every epoch.

    Reference: Safran and Shamir (2020), How Good is SGD with Random Shuffling?
    """

    needs_scores: ClassVar[bool] = False

    def order(self, request: Request) -> Order:
        """Return the permutation of epoch 0."""
        generator = request.generator if request.seed is None else epoch_generator(request.seed, 0)
        return Order(request.kept(_permutation(request.num_examples, generator)))


@final
@dataclass(frozen=True)
class Sequential(Ordering):
    """Keep the order of the dataset: the incremental gradient method.

    Rule: sigma(k) = k.

    When: the data is already shuffled, or must be read in sequence.

    Helps, theory: data that is already shuffled on disk, or that must be read in sequence.

    Hurts, theory: if neighbours are alike, as in data sorted by class, a batch can undo the progress of the one before.

    Cost: none.

    Reference: Bertsekas (2011), Incremental Gradient, Subgradient, and Proximal Methods for Convex Optimization:
    A Survey.
    """

    needs_scores: ClassVar[bool] = False

    def order(self, request: Request) -> Order:
        """Return 0, 1, 2, ..."""
        return Order(request.kept(torch.arange(request.num_examples)))


def _permutation(num_examples: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randperm(num_examples, generator=generator, device=generator.device)
