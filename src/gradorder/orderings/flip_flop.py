"""FlipFlop: every second epoch plays the one before it backwards."""

from dataclasses import dataclass, replace
from typing import final

import torch

from gradorder.orderings.ordering import Made
from gradorder.orderings.revisiting import Revisiting
from gradorder.orderings.wrapping import Wrapping


@final
@dataclass(frozen=True)
class FlipFlop(Wrapping):
    """Odd epochs replay the even epoch before them, reversed.

    Rule: sigma_{2j+1} = sigma_{2j} reversed, sigma_{2j} from the inner ordering, which may be any. An odd epoch uses
    the random numbers, scores and weights of its even partner, so nothing is scored for it. FlipFlop(Shuffled()) is
    paired reversal.

    It helps as far as order matters at all: an order followed by its reverse cancels the leading term by which the
    result of an epoch depends on its order.

    Cost: the inner ordering's, half as often.

    Reference: Rajput, Lee and Papailiopoulos (2021), Permutation-Based SGD: Is Random Optimal?; paired reversal:
    Nguyen, Phan and Kalagnanam (2026), Learning to Shuffle.

    Args:
        inner: the ordering of the even epochs.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.inner, Revisiting) and self.inner.every % 2 == 0:
            raise ValueError(
                f"inner must have an odd `every`, got {self.inner}: only its even epochs are asked for, and they "
                "would always force the same examples"
            )

    def noise_epoch(self, epoch: int) -> int:
        """The inner ordering's for the even partner."""
        return self.inner.noise_epoch(_even(epoch))

    def scores_epoch(self, epoch: int) -> int:
        """The inner ordering's for the even partner."""
        return self.inner.scores_epoch(_even(epoch))

    def reverses(self, epoch: int) -> bool:
        """Whether the epoch is odd (an inner ordering that reverses as well undoes it)."""
        return (epoch % 2 == 1) != self.inner.reverses(_even(epoch))

    def _order_in_classes(
        self,
        scores: torch.Tensor,
        num_examples: int,
        epoch: int,
        generator: torch.Generator,
        classes: torch.Tensor | None,
    ) -> torch.Tensor:
        order = self._inner_order(scores, num_examples, _even(epoch), generator, classes)
        return order.flip(0) if epoch % 2 else order

    def weights(self, kept: torch.Tensor, made: Made) -> torch.Tensor | None:
        """The inner ordering's for the even partner."""
        return self.inner.weights(kept, replace(made, epoch=_even(made.epoch)))


def _even(epoch: int) -> int:
    return epoch - epoch % 2
