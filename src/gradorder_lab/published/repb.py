"""RePB: drop examples below the mean loss of their batch at random, and weight the others by their visits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings import Order, Ordering, OrderingRun, Request
from gradorder.orderings.ordering import checked_order
from gradorder_lab.published.request import is_known, permutation, refuse_keep

REMARK = "from a summary only; rho and the end phase are not known"


@final
@dataclass(frozen=True)
class RePB(Ordering):
    """Skip examples with a loss below the mean of their batch at random. From a summary only.

    This is written from a summary of the paper only. rho and the end phase are not known to us: rho = 0.5 is our
    assumption, and there is no end phase here.

    Rule: mu is the mean loss of the batch in which the example was visited in the last epoch. An example with a loss of
    at least mu is visited in the next epoch. An example with a smaller loss is visited with probability 1 - rho. An
    example that was absent in the last epoch returns with probability 1 - rho. The weight of a visited example is the
    number of epochs so far, divided by the number of epochs in which it was visited; both include this epoch. Epoch 0
    is complete, with weights 1.

    Constants: rho = 0.5 (assumed); the window of mu is one batch.

    Cost: one permutation and N random numbers per epoch; two integers for each example are stored. There is no extra
    forward pass.

    Differs from the paper: not known, see above.

    Reference: RePB (ICLR 2026).

    Args:
        ratio: rho, the probability of skipping, in (0, 1).
    """

    needs_scores: ClassVar[bool] = True
    ratio: float = 0.5

    def __post_init__(self) -> None:
        if not checks.is_number(self.ratio) or not 0 < self.ratio < 1:
            raise ValueError(f"ratio must be in (0, 1), got {self.ratio!r}")

    def order(self, request: Request) -> Order:
        """Return the order of an epoch after complete epochs, the last of them in a single batch."""
        return self.order_after(request, _Visits.complete(request))

    def order_after(self, request: Request, visits: "_Visits") -> Order:
        """Return the visited examples in random order, with their weights."""
        order = request.kept(permutation(request))
        generator = request.generator
        draws = torch.rand(request.num_examples, generator=generator, dtype=torch.float64, device=generator.device)
        is_visited = (draws >= self.ratio).cpu() | ~is_known(request)
        if request.scores is None:
            return Order(order)
        is_visited |= visits.is_at_least_mean_of_batch(request.scores.cpu())
        kept = order[is_visited[order]]
        return Order(kept, (request.epoch + 1) / (visits.number[kept] + 1.0))

    def start(self, request: Request) -> OrderingRun:
        """Start a run that counts visits."""
        refuse_keep(self, request)
        if request.classes is not None:
            raise ValueError(f"labels must not be given with {self}: the batches must be those of its own order")
        return _CountingRun(self, request.num_examples)


@dataclass(frozen=True, eq=False)
class _Visits:
    """The visits of every example before an epoch.

    Args:
        number: of visits, shape (N,).
        batch: the batch of the last epoch, -1 for an example that was absent, shape (N,).
    """

    number: torch.Tensor
    batch: torch.Tensor

    @classmethod
    def complete(cls, request: Request) -> "_Visits":
        """The visits if all epochs before this one were complete, the last one in a single batch."""
        size = request.num_examples
        return cls(torch.full((size,), request.epoch), torch.zeros(size, dtype=torch.int64))

    def is_at_least_mean_of_batch(self, losses: torch.Tensor) -> torch.Tensor:
        """Mark the examples of the last epoch with a loss of at least the mean of their batch."""
        present = (self.batch >= 0).nonzero().flatten()
        values, batch = losses.double()[present], self.batch[present]
        num_batches = int(batch.max()) + 1
        means = torch.zeros(num_batches, dtype=torch.float64).scatter_reduce(
            0, batch, values, "mean", include_self=False
        )
        # Rounding must not put the mean of equal losses above them.
        largest = torch.zeros_like(means).scatter_reduce(0, batch, values, "amax", include_self=False)
        is_large = torch.zeros(len(losses), dtype=torch.bool)
        is_large[present] = values >= torch.minimum(means, largest)[batch]
        return is_large

    def after(self, order: Order, batch_size: int) -> "_Visits":
        """The visits after an epoch with this order."""
        number, batch = self.number.clone(), torch.full_like(self.batch, -1)
        number[order.indices] += 1
        batch[order.indices] = torch.arange(len(order.indices)) // batch_size
        return _Visits(number, batch)


class _CountingRun(OrderingRun):
    """Counts the visits of every example."""

    def __init__(self, rule: RePB, num_examples: int) -> None:
        super().__init__(rule, prunes=True)
        self._repb = rule
        self._num_examples = num_examples
        self._epoch = -1  # that was ordered last
        self._visits: _Visits | None = None

    def order(self, request: Request) -> Order:
        """Order an epoch and count its visits."""
        if request.epoch <= self._epoch:
            raise ValueError(
                f"epoch must be more than {self._epoch}, got {request.epoch}. {self.rule} counts the epochs of a run, "
                "so none can be planned again"
            )
        visits = self._visits or _Visits.complete(request)
        order = checked_order(self.rule, request, self._repb.order_after(request, visits))
        self._visits = visits.after(order, request.batch_size or request.num_examples)
        self._epoch = request.epoch
        return order

    def state(self) -> dict[str, torch.Tensor | int]:
        """Return the visits."""
        if self._visits is None:
            return {}
        return {"epoch": self._epoch, "number": self._visits.number, "batch": self._visits.batch}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        self._epoch, self._visits = -1, None
        if not state:
            return
        epoch = checks.integer("epoch of the visits", state.get("epoch"), minimum=0)
        for name in ("number", "batch"):
            if state[name].dtype != torch.int64 or tuple(state[name].shape) != (self._num_examples,):
                raise ValueError(
                    f"{name} of the visits must hold one integer for each of {self._num_examples} examples, got "
                    f"{state[name].dtype} of shape {tuple(state[name].shape)}"
                )
        self._epoch, self._visits = epoch, _Visits(state["number"], state["batch"])
