"""Unlearned: random reshuffling that skips most examples that the model already fits, and audits itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
import torch

from gradorder import checks
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request, random_order

LIMIT = 0.35
"""The audit lowers the bound if the returning examples have more than this share of the mean loss. For examples chosen
at random it is 1. benchmarks/default.py lists the values that were tried."""

WORTH_EXPONENT = 0.5
"""An epoch that visits a part k of the examples counts as k ** 0.5 epochs. benchmarks/default.py lists the values that
were tried: with 0 the missing updates cost accuracy, with 1 nothing is saved."""

_MOST_HALVINGS = 10
"""With this many halvings the bound is zero: no example is fitted. Otherwise losses of exactly zero, which a hinge loss
has, would be skipped whatever the audit finds."""


@final
@dataclass(frozen=True)
class Unlearned(Ordering):
    """Shuffle the examples, and skip most of those that the model already fits.

    Rule: with m the mean loss, an example is fitted if its loss is below share * m. Every epoch visits one of `every`
    fixed random parts of the fitted examples, a different one each epoch, and all other examples. It visits them in the
    order of random reshuffling.

    The rule audits itself in a sampler. The fitted examples of a part come back after they were skipped, and their new
    losses show whether the model still fits them. If their mean loss is above 0.35 m, the bound is halved. It doubles
    again, up to share * m, when the losses of the examples between the bound and twice the bound stay small. So the
    rule skips less, or nothing, if a small loss does not last. This is common in regression, where some residuals are
    small by chance.

    The unit of the loss does not matter: losses that are all multiplied by one number give the same orders. This is
    exact for powers of two. For other numbers, a loss that is within rounding of the bound may change sides.

    If some losses are negative, a small loss does not mean that an example is fitted, so no example counts as fitted.
    If no example is fitted, the order is exactly that of random reshuffling.

    Every example is visited at least once in any `every` consecutive epochs. The number of steps of an epoch is known
    only when it is planned, so let the learning rate follow `sampler.progress` (`go.ProgressLR`). In
    `for epoch in sampler.run()`, an epoch that visits a part k of the examples counts as sqrt(k) epochs: part of the
    saved gradients pays for further epochs.

    It is meant for losses remembered from training, in runs that fit many examples before they end. With label
    smoothing, pass the unsmoothed losses: the smoothed loss of a fitted example is not small.

    When: you want fewer gradients and no number to choose. `go.recommended` builds it.

    Helps, theory: a fitted example has a small gradient: for the cross-entropy, 1 - exp(-loss) bounds its norm at the
    logits.

    Hurts, theory: the model may forget fitted examples until their next turn; the audit sees it one epoch later. With
    noisy labels, the examples that remain are noisy more often.

    Cost: one permutation and two comparisons of N per epoch; the last losses of all examples are stored.

    Reference: none known to us for this form; examples that are never forgotten once learned: Toneva, Sordoni,
    Tachet des Combes et al. (2019), An Empirical Study of Example Forgetting during Deep Neural Network Learning.

    Args:
        share: the loss of a fitted example is below this share of the mean loss, in (0, 1).
        every: the number of parts, at least 2.
    """

    needs_scores: ClassVar[bool] = True
    share: float = 0.25
    every: int = 4

    def __post_init__(self) -> None:
        if not checks.is_number(self.share) or not 0 < self.share < 1:
            raise ValueError(f"share must be in (0, 1), got {self.share!r}")
        checks.integer("every", self.every, minimum=2)

    def order(self, request: Request) -> Order:
        """Return a new permutation without the skipped examples."""
        return self.order_without(request, self.is_fitted(request), request.in_turn(self.every))

    def is_fitted(self, request: Request) -> torch.Tensor:
        """Mark the examples that the model fits. Examples that were never scored are not fitted."""
        losses = request.required_scores
        if request.known is None:
            return _is_below(losses, self.share)
        known = request.known.to(losses.device)
        is_fitted = torch.zeros_like(losses, dtype=torch.bool)
        if known.any():
            is_fitted[known] = _is_below(losses[known], self.share)
        return is_fitted

    def order_without(self, request: Request, is_fitted: torch.Tensor, in_turn: torch.Tensor) -> Order:
        """Return a new permutation without the fitted examples whose turn it is not."""
        generator = request.generator
        order = torch.randperm(request.num_examples, generator=generator, device=generator.device).to(is_fitted.device)
        in_turn = in_turn.to(is_fitted.device)
        is_skipped = is_fitted & ~in_turn
        if (
            is_skipped.all()
        ):  # an epoch must not be empty: with fewer examples than `every`, some epochs are the turn of no example
            return Order(request.kept(order))
        # index_select: a quarter of the time of is_skipped[order]
        is_visited = ~is_skipped.index_select(0, order)
        num_unskipped = int(is_visited.sum())
        num_visited = request.trainable(num_unskipped)
        if num_visited > num_unskipped:  # fill the last batch with skipped examples
            is_visited[(~is_visited).nonzero().flatten()[: num_visited - num_unskipped]] = True
        elif num_visited < num_unskipped:  # drop examples at the end, except those whose turn it is
            is_free = is_visited & ~in_turn.index_select(0, order)
            is_visited[is_free.nonzero().flatten()[num_visited - num_unskipped :]] = False
        return Order(request.kept(order.masked_select(is_visited)))

    def start(self, request: Request) -> OrderingRun:
        """Start a run that audits itself and whose epochs differ in length."""
        if request.keep is not None:
            raise ValueError(f"keep must not be given with {self}, which itself decides how many examples to visit")
        return _AuditedRun(self, request.num_examples)


def _is_below(losses: torch.Tensor, share: float) -> torch.Tensor:
    lowest, mean = float(losses.min()), float(losses.double().mean())
    if lowest < 0:  # then a small loss does not mean that an example is fitted
        return torch.zeros_like(losses, dtype=torch.bool)
    # Strictly below, so that the largest loss never counts as fitted, even if all losses are zero.
    return losses < share * mean


class _AuditedRun(OrderingRun):
    """Lowers the bound of the rule while fitted examples that come back have large losses, and raises it again later.

    Two groups of examples are audited. The returning ones are fitted, and it is their turn: their new losses show
    whether the bound is too high. The others are fitted only by twice the bound, so they are visited in every epoch:
    their new losses show whether the bound can be doubled.
    """

    can_be_replayed = True

    def __init__(self, rule: Unlearned, num_examples: int) -> None:
        super().__init__(rule, prunes=True)
        self._unlearned = rule
        self._num_examples = num_examples
        self._halvings = 0  # the bound is share * mean loss / 2 ** halvings; see _MOST_HALVINGS
        self._epoch = -1  # that was ordered last
        self._audited: dict[str, torch.Tensor] = {}
        self._parts: torch.Tensor | None = None

    def worth(self, part: float) -> float:
        """Return the square root of the part: fewer updates need more than their share of the run."""
        return float(part**WORTH_EXPONENT)

    def order(self, request: Request) -> Order:
        """Audit the epoch before this one, then order this one."""
        if request.scores is None:
            return random_order(request)
        if request.epoch != self._epoch:  # planning an epoch again is not another audit
            self._audit(request)
        is_fitted, in_turn = self._is_fitted(request, self._halvings), self._in_turn(request)
        self._audited = {"returning": is_fitted.cpu() & in_turn}
        if self._halvings > 0:
            self._audited["next"] = (self._is_fitted(request, self._halvings - 1) & ~is_fitted).cpu()
        self._epoch = request.epoch
        return self._unlearned.order_without(request, is_fitted, in_turn)

    def _in_turn(self, request: Request) -> torch.Tensor:
        if self._parts is None:  # the same in every epoch, and dealing them takes as long as shuffling
            self._parts = request.parts(self._unlearned.every)
        return self._parts == request.turn(self._unlearned.every)

    def _is_fitted(self, request: Request, halvings: int) -> torch.Tensor:
        if halvings >= _MOST_HALVINGS:
            return torch.zeros_like(request.required_scores, dtype=torch.bool)
        return replace(self._unlearned, share=self._unlearned.share / 2**halvings).is_fitted(request)

    def _audit(self, request: Request) -> None:
        if self._has_large_losses("returning", request):
            self._halvings = min(_MOST_HALVINGS, self._halvings + 1)
        elif self._halvings > 0 and not self._has_large_losses("next", request):
            self._halvings -= 1

    def _has_large_losses(self, group: str, request: Request) -> bool:
        losses, examples = request.required_scores.cpu(), self._audited.get(group)
        if examples is None:
            return False
        if request.known is not None:  # an unknown score is filled in, so it is not part of any mean
            losses, examples = losses[request.known.cpu()], examples[request.known.cpu()]
        if not examples.any():
            return False
        return float(losses[examples].double().mean()) > LIMIT * float(losses.double().mean())

    def state(self) -> dict[str, torch.Tensor | int]:
        """Return the bound, and the audited examples as bits."""
        if self._epoch < 0:
            return {}
        bits = {name: torch.from_numpy(np.packbits(group.numpy())) for name, group in self._audited.items()}
        return {"epoch": self._epoch, "halvings": self._halvings, **bits}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        self._halvings, self._epoch, self._audited = 0, -1, {}
        if not state:
            return
        self._epoch = checks.integer("epoch of the audit", state.get("epoch"), minimum=0)
        self._halvings = checks.integer("halvings of the audit", state.get("halvings"), minimum=0)
        self._audited = {name: self._unpacked(state[name]) for name in ("returning", "next") if name in state}

    def _unpacked(self, bits: torch.Tensor) -> torch.Tensor:
        if bits.dtype != torch.uint8 or tuple(bits.shape) != (-(-self._num_examples // 8),):
            raise ValueError(
                f"state must hold one bit for each of {self._num_examples} examples, got {bits.dtype} of shape "
                f"{tuple(bits.shape)}"
            )
        return torch.from_numpy(np.unpackbits(bits.numpy(), count=self._num_examples).astype(bool))
