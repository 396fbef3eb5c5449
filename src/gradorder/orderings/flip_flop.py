"""FlipFlop: every second epoch visits the examples of the epoch before it in reverse order."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, OrderingRun, Request, Wrapping, check_content, epoch_generator


@final
@dataclass(frozen=True)
class FlipFlop(Wrapping):
    """Reverse the order of each even epoch in the odd epoch after it.

    Rule: sigma_{2j+1} = sigma_{2j} reversed, sigma_{2j} from the inner ordering. An odd epoch uses the random
    numbers, scores and weights of the even epoch before it, so it needs no new scores. FlipFlop(Shuffled()) is paired
    reversal.

    Needs: what the inner ordering needs, in even epochs.

    When: you want less variance between epochs without scores, or scores in every second epoch only.

    Helps, theory: the result of an epoch depends on its order; an order followed by its reverse cancels the leading
    term of this dependence. For quadratics the reference proves faster rates.

    Hurts, theory: odd epochs use scores that are one epoch old. The last batch of an even epoch is trained on twice in
    a row.

    Cost: the cost of the inner ordering in every second epoch.

    Reference: Rajput, Lee and Papailiopoulos (2021), Permutation-Based SGD: Is Random Optimal?; paired reversal:
    Nguyen, Phan and Kalagnanam (2026), Learning to Shuffle.

    Args:
        inner: the ordering of the even epochs.
    """

    def order(self, request: Request) -> Order:
        """Return the order of the even epoch, marked as reversed in odd epochs."""
        even = request.epoch - request.epoch % 2
        request = replace(request, epochs_per_order=2)
        if even == request.epoch:
            return self.inner.order(request)
        generator = request.generator if request.seed is None else epoch_generator(request.seed, even)
        return _reversed(self.inner.order(replace(request, epoch=even, generator=generator)), even)

    def start(self, request: Request) -> OrderingRun:
        """Start a run that replays the even epochs."""
        return _Replay(self, request.num_examples, self.inner.start(replace(request, epochs_per_order=2)))

    def _can_wrap(self, run: OrderingRun) -> bool:
        return run.can_be_replayed or super()._can_wrap(run)


class _Replay(OrderingRun):
    """Keeps the order of an even epoch for the odd epoch after it, which then needs no scores."""

    def __init__(self, rule: FlipFlop, num_examples: int, inner: OrderingRun) -> None:
        super().__init__(rule, prunes=inner.prunes)
        self._num_examples = num_examples
        self._inner = inner
        self._epoch = -1
        self._order: Order | None = None

    def needs_scores(self, epoch: int) -> bool:
        """Whether this epoch needs scores: an odd epoch reuses the order of the even epoch before it."""
        return self.rule.needs_scores and self._replayed(epoch) is None

    def _replayed(self, epoch: int) -> Order | None:
        return self._order if epoch % 2 == 1 and self._epoch == epoch - 1 else None

    def order(self, request: Request) -> Order:
        """Order an even epoch and keep its order, or replay the kept order in reverse."""
        replayed = self._replayed(request.epoch)
        if replayed is not None:
            return _reversed(replayed, request.epoch - 1)
        # The sampler changes a copy of this run, so that a plan that fails changes nothing.
        self._inner = copy.copy(self._inner)
        order = self._ordered_by_inner(request)
        # Without scores, the seed alone reproduces the order.
        is_kept = self.rule.needs_scores and request.epoch % 2 == 0
        self._epoch, self._order = (request.epoch, order) if is_kept else (-1, None)
        return order

    def _ordered_by_inner(self, request: Request) -> Order:
        """Order an even epoch; for an odd epoch, return the reversed order of the even epoch before it."""
        even = request.epoch - request.epoch % 2
        generator = request.generator
        if even < request.epoch and request.seed is not None:
            generator = epoch_generator(request.seed, even)
        order = self._inner.order(replace(request, epoch=even, generator=generator, epochs_per_order=2))
        return order if even == request.epoch else _reversed(order, even)

    def worth(self, part: float) -> float:
        """Return the worth of the inner run."""
        return self._inner.worth(part)

    def state(self) -> dict[str, torch.Tensor | int]:
        """Return the kept order, and the state of the inner run."""
        return {**self._kept_state(), **{f"inner_{name}": value for name, value in self._inner.state().items()}}

    def _kept_state(self) -> dict[str, torch.Tensor | int]:
        if self._order is None:
            return {}
        weights = {} if self._order.weights is None else {"weights": self._order.weights.cpu()}
        flags = {"is_unscored": int(self._order.is_unscored), "repeats": int(self._order.repeats)}
        return {"epoch": self._epoch, "indices": self._order.indices.cpu(), **flags, **weights}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        inner = {name.removeprefix("inner_"): value for name, value in state.items() if name.startswith("inner_")}
        self._inner.load(inner)
        self._epoch, self._order = -1, None
        if "indices" in state:
            flags = {name: bool(state.get(name)) for name in ("is_unscored", "repeats")}
            order = Order(state["indices"], state.get("weights"), **flags)
            check_content(self.rule, order, self._num_examples)
            self._epoch = checks.integer("epoch of the replayed order", state.get("epoch"), minimum=0)
            self._order = order


def _reversed(order: Order, epoch: int) -> Order:
    return replace(order, backwards=not order.backwards, epoch=epoch)
