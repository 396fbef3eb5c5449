"""RS2: every round trains on the next one of several disjoint random subsets."""

from dataclasses import dataclass
from typing import ClassVar, final

from gradorder import checks
from gradorder.orderings import Order, Ordering, OrderingRun, Request
from gradorder.orderings.ordering import epoch_generator
from gradorder_lab.published.request import permutation, refuse_keep, share


@final
@dataclass(frozen=True)
class RS2(Ordering):
    """Shuffle the examples, cut them into disjoint subsets, and visit one subset per round.

    Rule: a shuffle of the n examples is cut into floor(n / rn) disjoint subsets of rn examples. Every round, which is
    an epoch of the sampler, visits the next subset. When all are used up, the examples are shuffled again. There are
    no weights and no losses. There are as many rounds as epochs of plain training, and the learning-rate schedule is
    compressed to them.

    Constants: r = 0.3. So every round visits 0.3 n examples.

    Cost: one permutation per round. There is no extra forward pass.

    Differs from the paper: if rn does not divide n, the last examples of a shuffle (a tenth of them for r = 0.3) are in
    no subset until the next shuffle.

    Reference: Okanovic et al. (2023), RS2.

    Args:
        fraction: r, in (0, 1].
    """

    needs_scores: ClassVar[bool] = False
    fraction: float = 0.3

    def __post_init__(self) -> None:
        checks.fraction("fraction", self.fraction)

    def order(self, request: Request) -> Order:
        """Return the subset of this round."""
        size = share(self.fraction, request.num_examples)
        turn = request.epoch % (request.num_examples // size)
        # All rounds of a shuffle draw the permutation of its first round.
        generator = request.generator if request.seed is None else epoch_generator(request.seed, request.epoch - turn)
        shuffled = permutation(Request(request.epoch, request.num_examples, generator))
        return Order(request.kept(shuffled[turn * size : (turn + 1) * size]))

    def start(self, request: Request) -> OrderingRun:
        """Start a run whose epochs visit a subset."""
        refuse_keep(self, request)
        return OrderingRun(self, prunes=True)
