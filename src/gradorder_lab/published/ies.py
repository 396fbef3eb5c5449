"""IES: exclude an example while its loss, as a curve over the epochs, has hardly any curvature."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch

from gradorder import checks
from gradorder.orderings import Order, Ordering, OrderingRun, Request
from gradorder.orderings.ordering import checked_order, random_order
from gradorder_lab.published.request import is_known, permutation, refuse_keep

MANY_CLASSES = 100
"""From this number of classes on, the paper's threshold is 2e-3."""

_LEAST_RECORDED = 4
_RECORDED = 5  # for three second differences


@final
@dataclass(frozen=True)
class IES(Ordering):
    """Shuffle the examples, and exclude those whose loss has small second differences over the last epochs.

    Rule: with l(e) the loss of an example in epoch e, its second difference is l(e) - 2 l(e-1) + l(e-2). The example is
    excluded while the mean of the last three absolute second differences is below delta and at least four of its losses
    are recorded. With four losses there are two second differences, and the mean is over these. So the first four
    epochs are complete. There are no weights. Excluded examples are evaluated in every epoch, and may return.

    Constants: delta = 1e-3, and 2e-3 for 100 classes or more.

    Cost: one forward pass over the excluded examples per epoch; the last five losses of all examples are stored.

    Differs from the paper: the losses of visited examples are those of their training step, in training mode and with
    augmentation; the losses of excluded ones are computed after the epoch, in eval mode and without it. If all examples
    are excluded, the epoch visits the one batch with the largest second differences, because it cannot be empty. For
    other losses than the cross-entropy the paper gives no delta: the same one is used, whatever the unit of the loss.

    Reference: IES (ICLR 2025).

    Args:
        threshold: delta.
    """

    needs_scores: ClassVar[bool] = True
    threshold: float = 1e-3

    def __post_init__(self) -> None:
        checks.positive("threshold", self.threshold)

    @classmethod
    def for_classes(cls, num_classes: int) -> "IES":
        """Return the rule with the paper's threshold for this number of classes."""
        return cls(2e-3 if num_classes >= MANY_CLASSES else 1e-3)

    def order(self, request: Request) -> Order:
        """Return all examples: one epoch of losses excludes none."""
        return Order(request.kept(permutation(request)))

    def order_after(self, request: Request, recorded: torch.Tensor) -> Order:
        """Return the examples that are not excluded, in random order.

        Args:
            request: the epoch.
            recorded: the losses of the last epochs, at most five, shape (epochs, N).
        """
        order = request.kept(permutation(request))
        if len(recorded) < _LEAST_RECORDED:
            return Order(order)
        change = recorded.double().diff(n=2, dim=0).abs().mean(0)
        is_visited = (change >= self.threshold) | ~is_known(request)
        if not is_visited.any():
            largest = change.argsort(descending=True, stable=True)[: request.batch_size or 1]
            is_visited[largest] = True
        return Order(order[is_visited[order]])

    def start(self, request: Request) -> OrderingRun:
        """Start a run that records losses."""
        refuse_keep(self, request)
        return _RecordingRun(self, request.num_examples)


class _RecordingRun(OrderingRun):
    """Records the losses of the last five epochs."""

    def __init__(self, rule: IES, num_examples: int) -> None:
        super().__init__(rule, prunes=True)
        self._ies = rule
        self._num_examples = num_examples
        self._epoch = -1  # that was ordered last
        self._losses = torch.empty(0, num_examples)

    def order(self, request: Request) -> Order:
        """Record the losses of the epoch before this one, then order this one."""
        if request.scores is None:
            return random_order(request)
        # Losses that are given again for the same epoch replace those given before.
        earlier = self._losses[:-1] if request.epoch == self._epoch else self._losses
        self._losses = torch.cat([earlier.to(request.scores.dtype), request.scores.cpu()[None]])[-_RECORDED:]
        self._epoch = request.epoch
        return checked_order(self.rule, request, self._ies.order_after(request, self._losses))

    def state(self) -> dict[str, torch.Tensor | int]:
        """Return the recorded losses."""
        return {} if self._epoch < 0 else {"epoch": self._epoch, "losses": self._losses.clone()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        self._epoch, self._losses = -1, torch.empty(0, self._num_examples)
        if not state:
            return
        epoch, losses = checks.integer("epoch of the losses", state.get("epoch"), minimum=0), state["losses"]
        if losses.ndim != 2 or losses.shape[1] != self._num_examples or len(losses) > _RECORDED:  # noqa: PLR2004
            raise ValueError(
                f"losses must have shape (epochs, {self._num_examples}) with at most {_RECORDED} epochs, got "
                f"{tuple(losses.shape)}"
            )
        self._epoch, self._losses = epoch, losses
