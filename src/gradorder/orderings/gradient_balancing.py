"""GradientBalancing (GraB): order the next epoch so that the sums of this epoch's gradients stay balanced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final, get_args

import numpy as np
import torch

from gradorder import checks
from gradorder.checks import widened
from gradorder.errors import warn
from gradorder.orderings.ordering import ExampleIndices, Order, Ordering, OrderingRun, Request, has_duplicates

Kind = Literal["mean", "pair"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@final
@dataclass(frozen=True)
class GradientBalancing(Ordering):
    """Learn an order from per-example gradients, so that the sum of the first k stays close to k times their mean.

    Rule: each epoch starts with s = 0 and does the following for every example i that it visits.

    - "mean": c = g_i - m, with m the mean gradient of the last epoch (0 in the first). If ||s + c|| <= ||s - c||, add c
      to s and append i to the front part of the next order; otherwise subtract c and prepend i to the back part.
    - "pair": the same with c = g_i - g_j for consecutive examples i, j; j goes to the opposite part. It needs no mean.
      If the number of examples is odd, the last one goes between the two parts.

    Pass gradients with `sampler.step(gradients=G)`, G of shape (batch, P): the per-example gradients of the batch, or a
    fixed linear projection of them. The first ordered epoch is random, and every step from then on needs gradients. An
    epoch that ends before its last step is not used: the sampler warns and keeps the old order, or draws another random
    order if there is none. Examples that `drop_last` skipped go to the middle. Several processes, labels, `keep` and
    wrapping by another ordering are not supported.

    This object is only the rule. The sampler holds the learned order and saves it in its state.

    If ||s|| <= A throughout the epoch and the sums of centred gradients in the old order stay below H, the sums in the
    new order stay below (A + H) / 2.

    Needs: per-example gradients, passed to `sampler.step(gradients=G)`.

    When: per-example gradients are available, and one process trains.

    Helps, theory: gradients that change slowly from epoch to epoch: sums of consecutive gradients stay close to their
    mean, and the references prove faster rates than for random reshuffling.

    Hurts, theory: needs a gradient per example, or a projection of it, in every step; one process only; no `keep`.

    Cost: B^2 P operations per batch of B, and memory for 3 vectors of P ("pair": 2) and 2 orders.

    Reference: Lu, Guo and De Sa (2022), GraB: Finding Provably Better Data Permutations than Random Reshuffling; pair:
    Cooper, Guo, Pham et al. (2023), Coordinating Distributed Example Orders for Provably Accelerated Training.

    Args:
        kind: "mean" or "pair".
    """

    needs_scores: ClassVar[bool] = False
    kind: Kind = "mean"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {self.kind!r}")

    def order(self, request: Request) -> Order:
        """Return a random order, for epochs before the first learned order."""
        device = request.generator.device
        return Order(torch.randperm(request.num_examples, generator=request.generator, device=device))

    def start(self, request: Request) -> OrderingRun:
        """Start a run that learns from all examples together, in one process."""
        if request.classes is not None or request.keep is not None or request.num_replicas > 1:
            raise ValueError(
                f"labels, keep and several processes must not be given with {self}, which learns its order. Got "
                f"labels: {request.classes is not None}, keep={request.keep}, num_replicas={request.num_replicas}"
            )
        return _Balancer(self, request.num_examples)


class _Balancer(OrderingRun):
    """The balanced sum of the current epoch, and the order learned from the last complete epoch."""

    def __init__(self, ordering: GradientBalancing, num_examples: int) -> None:
        super().__init__(ordering)
        self._kind = ordering.kind
        self._num_examples = num_examples
        self._order: torch.Tensor | None = None
        self._mean: torch.Tensor | None = None
        self.begin_epoch()

    def begin_epoch(self) -> None:
        self._balance: torch.Tensor | None = None  # s
        self._total: torch.Tensor | None = None
        self._placed = np.full(self._num_examples, -1)  # the next order, filled from both ends
        self._num_front = self._num_back = 0
        self._waiting: torch.Tensor | None = None  # the gradient of an example without a partner yet
        self._waiting_example = -1

    @property
    def num_learned(self) -> int:
        return self._num_front + self._num_back + (self._waiting is not None)

    def checked_gradients(
        self, what: str, gradients: torch.Tensor | None, examples: ExampleIndices, *, is_due: bool
    ) -> torch.Tensor | None:
        if not is_due:
            return None
        if gradients is None:
            raise ValueError(
                f"gradients must be given to every step with {self.rule}, which learns from them, got None"
            )
        return self._check_rows(what, gradients, examples)

    def _check_rows(self, what: str, gradients: object, examples: ExampleIndices) -> torch.Tensor:
        known = next((v for v in (self._balance, self._waiting, self._mean) if v is not None), None)
        width = "P" if known is None else str(len(known))
        rule = f"{what} must have shape ({len(examples)}, {width}), one row per example"
        if not isinstance(gradients, torch.Tensor) or not gradients.is_floating_point():
            kind = gradients.dtype if isinstance(gradients, torch.Tensor) else type(gradients).__name__
            raise TypeError(f"{rule}, and be floating point, got {kind}")
        if gradients.ndim != 2 or len(gradients) != len(examples) or gradients.shape[1] == 0:  # noqa: PLR2004 - a matrix
            raise ValueError(f"{rule}, got {tuple(gradients.shape)}")
        if known is not None and gradients.shape[1] != len(known):
            raise ValueError(f"{rule}, got {tuple(gradients.shape)}")
        rows = widened(gradients.detach())
        is_finite = rows.isfinite().all(1).cpu()
        if not bool(is_finite.all()):
            bad = examples[~is_finite.numpy()]
            raise ValueError(
                f"{what} must be finite, but {len(bad)} of {len(examples)} examples have NaN or infinite gradients "
                f"(first: example {int(bad[0])}). Has the training diverged?"
            )
        return rows

    def learn(self, examples: ExampleIndices, gradients: torch.Tensor | None) -> None:
        if gradients is None:
            return
        if self._kind == "mean":
            self._learn_centred(examples, gradients)
        else:
            self._learn_pairs(examples, gradients)

    def _learn_centred(self, examples: np.ndarray[Any, Any], gradients: torch.Tensor) -> None:
        total = gradients.sum(0)
        self._total = total if self._total is None else self._total.to(total) + total
        is_front = self._add_balanced(gradients if self._mean is None else gradients - self._mean.to(gradients))
        self._place(examples[is_front], examples[~is_front])

    def _learn_pairs(self, examples: np.ndarray[Any, Any], gradients: torch.Tensor) -> None:
        if self._waiting is not None:
            examples = np.concatenate([[self._waiting_example], examples])
            gradients = torch.cat([self._waiting.to(gradients)[None], gradients])
        num_paired = len(examples) - len(examples) % 2
        is_odd = num_paired < len(examples)
        self._waiting = gradients[-1].clone() if is_odd else None
        self._waiting_example = int(examples[-1]) if is_odd else -1
        if num_paired == 0:
            return
        first, second = examples[:num_paired:2], examples[1:num_paired:2]
        is_front = self._add_balanced(gradients[:num_paired:2] - gradients[1:num_paired:2])
        self._place(np.where(is_front, first, second), np.where(is_front, second, first))

    def _add_balanced(self, rows: torch.Tensor) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Add each row to the sum s or subtract it, and return which rows were added.

        ||s + c|| <= ||s - c|| exactly if <s, c> <= 0. Each product <s, c> is a sum of products of c with the s before
        the batch and with earlier rows. So two matrix products and a recursion on scalars are enough.
        """
        balance = rows.new_zeros(rows.shape[1]) if self._balance is None else self._balance.to(rows)
        products = (rows @ balance).double().cpu().numpy()
        between = (rows @ rows.T).double().cpu().numpy()
        signs = np.empty(len(rows))
        for k in range(len(rows)):
            signs[k] = 1.0 if products[k] <= 0 else -1.0
            products[k + 1 :] += signs[k] * between[k, k + 1 :]
        self._balance = balance + torch.from_numpy(signs).to(rows) @ rows
        return signs > 0

    def _place(self, front: np.ndarray[Any, Any], back: np.ndarray[Any, Any]) -> None:
        self._placed[self._num_front : self._num_front + len(front)] = front
        self._num_front += len(front)
        end = self._num_examples - self._num_back
        self._placed[end - len(back) : end] = back[::-1]
        self._num_back += len(back)

    def order(self, request: Request) -> Order:
        return super().order(request) if self._order is None else Order(self._order)

    def end_epoch(self, epoch: int, num_planned: int, *, is_due: bool) -> None:
        if self.num_learned == num_planned:
            self._learn_order()
        elif is_due:
            warn(
                f"epoch {epoch} ended after the gradients of {self.num_learned} of {num_planned} examples. "
                f"{self.rule} learns from complete epochs only, so it has learned no new order"
            )
        self.begin_epoch()

    def _learn_order(self) -> None:
        placed = self._placed.copy()
        missing = np.ones(self._num_examples, dtype=bool)
        missing[placed[placed >= 0]] = False
        if self._waiting is not None:
            missing[self._waiting_example] = False
            placed[self._num_front] = self._waiting_example
        placed[placed < 0] = np.flatnonzero(missing)
        if self._total is not None:
            self._mean = self._total / self.num_learned
        self._order = torch.from_numpy(placed)

    def state(self) -> dict[str, torch.Tensor | int]:
        tensors = {
            "order": self._order,
            "mean": self._mean,
            "walk": self._balance,
            "total": self._total,
            "placed": torch.from_numpy(self._placed),
            "waiting": self._waiting,
        }
        numbers = {
            "kind": KINDS.index(self._kind),
            "num_front": self._num_front,
            "num_back": self._num_back,
            "waiting_example": self._waiting_example,
        }
        return {**{name: v.detach().cpu() for name, v in tensors.items() if v is not None}, **numbers}

    def load(self, state: Mapping[str, Any]) -> None:
        if not state:  # saved by a sampler with another ordering: there is no learned order
            return
        if state["kind"] != KINDS.index(self._kind):
            raise ValueError(f"state was learned with kind={KINDS[state['kind']]!r}, but this one has {self._kind!r}")
        self._check_state(state)
        self._order, self._mean = state.get("order"), state.get("mean")
        self._balance, self._total = state.get("walk"), state.get("total")
        self._placed = state["placed"].numpy().copy()
        self._num_front, self._num_back = state["num_front"], state["num_back"]
        self._waiting, self._waiting_example = state.get("waiting"), state["waiting_example"]

    def _check_state(self, state: Mapping[str, Any]) -> None:
        """Raise if an order of the state contains an example twice, or if a count is wrong."""
        for name in ("order", "placed"):
            if name in state or name == "placed":
                self._check_indices(name, state.get(name), is_complete=name == "order")
        for name in ("num_front", "num_back"):
            checks.integer(f"{name} of the state", state.get(name), minimum=0)
        if state["num_front"] + state["num_back"] != int((state["placed"] >= 0).sum()):
            raise ValueError("state must hold as many placed examples as num_front and num_back count")

    def _check_indices(self, name: str, indices: object, *, is_complete: bool) -> None:
        size = self._num_examples
        if isinstance(indices, torch.Tensor) and indices.shape == (size,) and indices.dtype == torch.int64:
            placed = indices[indices >= 0].numpy()
            is_in_range = len(placed) == 0 or int(placed.max()) < size
            if is_in_range and not has_duplicates(placed, size) and (len(placed) == size or not is_complete):
                return
        raise ValueError(f"state must hold a learned {name} of {size} examples, each once")
