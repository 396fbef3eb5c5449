"""How the gradient norms of a model are computed, parameter by parameter."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples
from gradorder.losses import Losses, cross_entropy
from gradorder.norms.definition import gradient_norms
from gradorder.norms.model_state import differentiable, trainable_parameters, unwrapped
from gradorder.norms.operation import UnprovenError
from gradorder.norms.walk import Walk, walk

_REPEATS = 3


@dataclass(frozen=True)
class ParameterNorm:
    """How one parameter contributes to the norms.

    Attributes:
        name: as in `model.named_parameters()`.
        operations: the operations where it meets the examples, such as `Addmm` for a linear layer.
        how: an explanation in words.
    """

    name: str
    operations: tuple[str, ...]
    how: str


@dataclass(frozen=True)
class NormsExplained:
    """The result of `explain_norms`; printed, it is a table.

    Attributes:
        parameters: one entry for each trainable parameter; empty if the slower way is used.
        slower_way: the reason why each example is differentiated alone; None if the graph suffices.
        cost: the time of the norms over that of a plain forward and backward pass, measured on this batch.
    """

    parameters: tuple[ParameterNorm, ...]
    slower_way: str | None
    cost: float

    def __str__(self) -> str:
        if self.slower_way is None:
            width = max((len(each.name) for each in self.parameters), default=0)
            rows = [f"{e.name:<{width}}  {', '.join(e.operations) or '-':<16}  {e.how}" for e in self.parameters]
        else:
            rows = [f"each example is differentiated alone: {self.slower_way}"]
        return "\n".join([*rows, f"cost: {self.cost:.2f} of a plain forward and backward pass"])


def explain_norms(model: nn.Module, batch: Batch, losses: Losses | None = None) -> NormsExplained:
    """Explain how `gradient_norms` computes the norms of this model on this batch, and measure the cost.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        >>> explained = explain_norms(model, (torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 0])))
        >>> explained.parameters[0]
        ParameterNorm(name='0.weight', operations=('Addmm',), how='used once')
    """
    model, losses = unwrapped(model), losses or cross_entropy
    with differentiable(model):
        trainable_parameters(model)  # there must be one
        names = {id(parameter): name for name, parameter in model.named_parameters() if parameter.requires_grad}
        values = checks.per_example("losses", losses(model, batch), num_examples(batch))
        explained: tuple[ParameterNorm, ...] = ()
        try:
            explained, reason = _explained(walk(values, set(names)), names), None
        except UnprovenError as error:
            reason = str(error)
    cost = _seconds(lambda: gradient_norms(model, batch, losses)) / _seconds(lambda: _plain_pass(model, batch, losses))
    return NormsExplained(explained, reason, cost)


def _explained(found: Walk, names: dict[int, str]) -> tuple[ParameterNorm, ...]:
    operations: dict[int, list[str]] = {key: [] for key in names}
    derived: set[int] = set()
    for junction in found.junctions:
        for edge in junction.shared.values():
            shared = found.shared[edge]
            for parameter in shared.parameters:
                operations[id(parameter)].append(junction.op.kind)
                if shared.parameter is None:
                    derived.add(id(parameter))
    return tuple(ParameterNorm(names[key], tuple(used), _how(used, key in derived)) for key, used in operations.items())


def _how(operations: list[str], is_derived: bool) -> str:
    if not operations:
        return "no loss depends on it"
    if is_derived:
        return "through a tensor computed from it, written out for each example"
    return "used once" if len(operations) == 1 else f"used {len(operations)} times, with cross terms"


def _plain_pass(model: nn.Module, batch: Batch, losses: Losses) -> None:
    with differentiable(model):
        parameters = trainable_parameters(model)
        values = losses(model, batch)
        if values.requires_grad:
            torch.autograd.grad(values.sum(), parameters, allow_unused=True)


def _seconds(run: Callable[[], object]) -> float:
    """The time of the fastest of a few runs: slower ones were disturbed."""
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
