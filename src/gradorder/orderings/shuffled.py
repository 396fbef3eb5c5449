"""Without scores: random reshuffling, one shuffle for the whole run, and the order of the data set."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from gradorder.orderings.ordering import Order, Ordering, Request, epoch_generator


@final
@dataclass(frozen=True)
class Shuffled(Ordering):
    """A new random permutation every epoch: random reshuffling, what `shuffle=True` does.

    Rule: sigma uniform over all permutations, independent from epoch to epoch.

    Helps, theory: no score, no assumption on the data, and hard to beat: the baseline of every comparison here.

    Hurts, theory: spends as much on examples that are learned already as on the others.

    Cost: one permutation of N per epoch.

    Reference: Mishchenko, Khaled and Richtarik (2020), Random Reshuffling: Simple Analysis with Vast Improvements.
    """

    needs_scores: ClassVar[bool] = False

    def order(self, request: Request) -> Order:
        """A new permutation."""
        return Order(request.kept(_permutation(request.num_examples, request.generator)))


@final
@dataclass(frozen=True)
class ShuffledOnce(Ordering):
    """One random permutation for the whole run: shuffle once.

    Rule: sigma uniform over all permutations, the same in every epoch.

    Helps, theory: reads the data in the same order every epoch, which suits slow storage.

    Hurts, theory: an unlucky order stays for the whole run.

    Cost: as Shuffled, as it is drawn again for every epoch.

    Reference: Safran and Shamir (2020), How Good is SGD with Random Shuffling?
    """

    needs_scores: ClassVar[bool] = False

    def order(self, request: Request) -> Order:
        """The permutation of epoch 0."""
        generator = request.generator if request.seed is None else epoch_generator(request.seed, 0)
        return Order(request.kept(_permutation(request.num_examples, generator)))


@final
@dataclass(frozen=True)
class Sequential(Ordering):
    """The order of the data set: incremental gradient.

    Rule: sigma(k) = k.

    It hurts where neighbours in the data set are alike, as in data sorted by class.

    Helps, theory: data that was shuffled when it was written, or that must be read in sequence.

    Hurts, theory: neighbours that are alike, as in data sorted by class: each batch then forgets what the one before
    taught.

    Cost: none.

    Reference: Bertsekas (2011), Incremental Gradient, Subgradient, and Proximal Methods for Convex Optimization:
    A Survey.
    """

    needs_scores: ClassVar[bool] = False

    def order(self, request: Request) -> Order:
        """0, 1, 2, ..."""
        return Order(request.kept(torch.arange(request.num_examples)))


def _permutation(num_examples: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randperm(num_examples, generator=generator, device=generator.device)
