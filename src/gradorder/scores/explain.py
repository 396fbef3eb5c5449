"""How the gradient norms of a model are computed, parameter by parameter."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, num_examples
from gradorder.losses import Losses, cross_entropy
from gradorder.scores.by_graph import proved
from gradorder.scores.gradient_norm import gradient_norms
from gradorder.scores.graph import UnprovenError, Walk
from gradorder.scores.graph.layers import LayerCalls, LayerRules
from gradorder.scores.reference import trainable_parameters
from gradorder.scores.undisturbed import undisturbed
from gradorder.scores.wrapped import unwrapped

_REPEATS = 3


@dataclass(frozen=True)
class ParameterNorm:
    """How one parameter adds to the norms.

    Attributes:
        name: as in `model.named_parameters()`.
        operations: that join it with the examples, such as `Addmm` for a linear layer.
        how: in words.
    """

    name: str
    operations: tuple[str, ...]
    how: str


@dataclass(frozen=True)
class NormsExplained:
    """What `explain_norms` gives; printed, it is a table.

    Attributes:
        parameters: one entry for each trainable parameter; empty where a slower way serves.
        slower_way: why the graph proves nothing and each example is differentiated by itself; None where it does.
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
            rows = [f"each example is differentiated by itself: {self.slower_way}"]
        return "\n".join([*rows, f"cost: {self.cost:.2f} of a plain forward and backward pass"])


def explain_norms(
    model: nn.Module, batch: Batch, losses: Losses | None = None, *, rules: LayerRules | None = None
) -> NormsExplained:
    """How `gradient_norms` computes the norms of this model on this batch, and what that costs.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        >>> explained = explain_norms(model, (torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 0])))
        >>> explained.parameters[0]
        ParameterNorm(name='0.weight', operations=('Addmm',), how='used once')
    """
    model, losses = unwrapped(model), losses or cross_entropy
    names = {id(parameter): name for name, parameter in model.named_parameters() if parameter.requires_grad}
    trainable_parameters(model)
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad():
        calls = LayerCalls(rules or {})
        with calls.watching(model):
            values = checks.per_example("losses", losses(model, batch), num_examples(batch))
        explained: tuple[ParameterNorm, ...] = ()
        try:
            explained, reason = _explained(proved(values, set(names), calls.steps), names), None
        except UnprovenError as error:
            reason = str(error)
    cost = _seconds(lambda: gradient_norms(model, batch, losses, rules=rules)) / _seconds(
        lambda: _plain_pass(model, batch, losses)
    )
    return NormsExplained(explained, reason, cost)


def _explained(found: Walk, names: dict[int, str]) -> tuple[ParameterNorm, ...]:
    operations: dict[int, list[str]] = {key: [] for key in names}
    derived: set[int] = set()
    for junction in found.junctions:
        for edge in junction.shared.values():
            shared = found.shared[edge]
            for parameter in shared.parameters:
                operations[id(parameter)].append(junction.step.kind)
                if shared.parameter is None:
                    derived.add(id(parameter))
    return tuple(ParameterNorm(names[key], tuple(used), _how(used, key in derived)) for key, used in operations.items())


def _how(operations: list[str], is_derived: bool) -> str:
    if not operations:
        return "no loss depends on it"
    if is_derived:
        return "through what is made of it, written out for each example"
    return "used once" if len(operations) == 1 else f"used {len(operations)} times, with cross terms"


def _plain_pass(model: nn.Module, batch: Batch, losses: Losses) -> None:
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad():
        parameters = trainable_parameters(model)
        values = losses(model, batch)
        if values.requires_grad:
            torch.autograd.grad(values.sum(), parameters, allow_unused=True)


def _seconds(run: Callable[[], object]) -> float:
    """Of the fastest of a few runs: others were disturbed."""
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
