"""Exact norms by one backward pass through activations: the weights' own gradients are never made."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import CheckpointError

from gradorder.scores.graph import Junction, Node, SquaredNorms, UnprovenError, Walk, walk
from gradorder.scores.graph.layers import LayerStep
from gradorder.scores.reference import has_hooks


def proved(losses: torch.Tensor, counted: set[int] | None, layers: Mapping[Node, LayerStep] | None = None) -> Walk:
    """The `walk` through the graph of these losses, where no hook of the user's own changes a counted gradient.

    Raises:
        UnprovenError: it cannot be told what each example adds to the gradients.
    """
    if not losses.requires_grad:
        return Walk(None, {}, [], {}, set(), {})
    found = walk(losses, counted, layers)
    if any(has_hooks(shared.parameters) for shared in found.shared.values()):
        raise UnprovenError(
            "a parameter has a hook (register_hook), and what it makes of one example's gradient is not known"
        )
    return found


def squared_norms(losses: torch.Tensor, found: Walk) -> torch.Tensor:
    """The squared gradient norm of each example, shape (B,), by one backward pass through the graph of its losses.

    Raises:
        UnprovenError: torch before 2.9 hands out a checkpointed activation to autograd or to us, not to both.
    """
    norms = SquaredNorms(found, len(losses))
    if found.junctions:
        last = _last_ones(found)
        edges = [
            GradientEdge(j.step.node, n) for j in last for n, place in enumerate(j.step.places) if place is not None
        ]
        with ExitStack() as stack:
            for junction in found.junctions:
                if junction not in last:
                    hook = junction.step.node.register_prehook(partial(met, norms, junction))
                    stack.callback(hook.remove)
            try:
                gradients = iter(torch.autograd.grad(losses.sum(), edges, allow_unused=True))
            except CheckpointError as error:
                if "already unpacked once" not in str(error):
                    raise
                raise UnprovenError("this torch hands out checkpointed activations only once") from error
        for junction in last:
            met(norms, junction, tuple(None if place is None else next(gradients) for place in junction.step.places))
    with in_full_precision(losses.device):
        return norms.squares().to(losses.device)


def met(norms: SquaredNorms, junction: Junction, gradients: tuple[torch.Tensor | None, ...]) -> None:
    """The backward pass has come to a junction."""
    gradients = tuple(None if gradient is None else gradient.to_dense() for gradient in gradients)
    with in_full_precision(junction.step.device):
        norms.meet(junction, gradients)


def passed_on(norms: SquaredNorms, node: Node, _gradients: object) -> None:
    """The backward pass has come to something made of parameters alone: all its users have sent their gradients."""
    with torch.no_grad():
        norms.pass_on(node)


def _last_ones(found: Walk) -> list[Junction]:
    """The junctions with no other one behind them: the backward pass ends there, and hands out their gradients."""
    nodes = {junction.step.node for junction in found.junctions}
    leads_on: set[object] = set()
    for node, step in reversed(found.steps.items()):
        if any(child in leads_on or child in nodes for child, _ in step.edges if child in found.steps):
            leads_on.add(node)
    return [junction for junction in found.junctions if junction.step.node not in leads_on]


@contextmanager
def in_full_precision(device: torch.device) -> Iterator[None]:
    """Norms are not computed in half precision, even where autocast is on."""
    if not torch.is_autocast_enabled(device.type):
        yield
    else:
        with torch.autocast(device.type, enabled=False):
            yield
