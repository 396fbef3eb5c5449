"""FlipFlop: every second epoch plays the one before it backwards."""

from dataclasses import dataclass, replace
from typing import final

from gradorder.orderings.ordering import Order, Ordering, Request
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

    Helps, theory: an order and its reverse cancel the leading term by which an epoch's result depends on its order: for
    quadratics the reference proves faster rates.

    Hurts, theory: odd epochs use scores that are an epoch old; the last batch of an epoch is trained on twice in a row.

    Cost: the inner ordering's, half as often.

    Reference: Rajput, Lee and Papailiopoulos (2021), Permutation-Based SGD: Is Random Optimal?; paired reversal:
    Nguyen, Phan and Kalagnanam (2026), Learning to Shuffle.

    Args:
        inner: the ordering of the even epochs.
    """

    def source_epoch(self, epoch: int) -> int:
        """The inner ordering's for the even partner."""
        return self.inner.source_epoch(_even(epoch))

    def order(self, request: Request) -> Order:
        """The even partner's, backwards in odd epochs."""
        return _play(self.inner.order(_of_partner(request)), request.epoch)

    def order_without_scores(self, request: Request) -> Order:
        """The even partner's, backwards in odd epochs."""
        return _play(self.inner.order_without_scores(_of_partner(request)), request.epoch)

    def num_kept(self, request: Request) -> int | None:
        """The inner ordering's for the even partner."""
        return self.inner.num_kept(_of_partner(request))

    def inside(self, wrapper: Ordering) -> None:
        """Refused: what is around it would see the odd epochs as epochs of their own."""
        del wrapper
        raise ValueError(f"inner must not replay epochs, got {self}: put FlipFlop outside of everything else")


def _even(epoch: int) -> int:
    return epoch - epoch % 2


def _of_partner(request: Request) -> Request:
    return replace(request, epoch=_even(request.epoch))


def _play(order: Order, epoch: int) -> Order:
    return replace(order, backwards=order.backwards != (epoch % 2 == 1))
