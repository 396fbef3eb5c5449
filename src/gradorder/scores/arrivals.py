"""Whether every gradient in a backward pass comes from the losses that were told, and from nowhere else.

A term beside the losses, such as a penalty on the logits or an auxiliary loss of experts, sends gradients of its own
through the same operations, and they would be counted as the examples'. Each operation's gradient is therefore held
against what the operations between it and the losses have sent.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import torch

from gradorder.scores.graph import Edge, Node, Walk


class Arrivals:
    """The gradients that one graph's operations have sent each other in the backward pass under way."""

    def __init__(self) -> None:
        self._sent: dict[Edge, list[torch.Tensor]] = {}
        self._strangers: dict[Node, str] = {}
        self._found: Walk | None = None

    def watch(self, found: Walk, stack: ExitStack, *, down_to_parameters: bool = False) -> None:
        """Look at every operation of a graph but the one that gives the losses.

        Args:
            found: the graph.
            stack: when it is closed, nobody looks any more.
            down_to_parameters: look at what all examples share, too, and at the parameters.
        """
        self._found = found
        nodes = [*found.steps, *(found.shared_nodes - found.steps.keys() if down_to_parameters else ())]
        known = set(nodes)
        for node in nodes:
            edges = [edge if edge[0] in known else None for edge in node.next_functions]
            stack.callback(node.register_hook(partial(self._keep, edges)).remove)
            if node is not found.root:
                stack.callback(node.register_prehook(partial(self._compare, node)).remove)

    def restart(self) -> None:
        """Another backward pass through the same graph begins."""
        self._sent.clear()
        self._strangers.clear()

    def check(self, *, down_to_parameters: bool = False) -> None:
        """Raise if a gradient of the examples has come from elsewhere, or one that is shared."""
        known = () if self._found is None else self._found.steps
        for node, name in self._strangers.items():
            if node in known or down_to_parameters:
                raise ValueError(
                    f"another term than the losses sends gradients through {name} in the same backward pass, and they "
                    "cannot be told from the examples' own: add that term to the losses of the examples, or run its "
                    "backward pass separately"
                )

    def _keep(self, edges: list[Edge | None], sent: tuple[torch.Tensor | None, ...], _got: object) -> None:
        for edge, gradient in zip(edges, sent, strict=True):
            if edge is not None and gradient is not None:
                self._sent.setdefault(edge, []).append(gradient)

    def _compare(self, node: Node, gradients: tuple[torch.Tensor | None, ...]) -> None:
        for number, gradient in enumerate(gradients):
            known = self._sent.pop((node, number), ())
            if gradient is None or (len(known) == 1 and known[0] is gradient):
                continue
            if not known or not _is_sum(gradient, known):
                self._strangers[node] = type(node).__name__


def _is_sum(total: torch.Tensor, parts: Sequence[torch.Tensor]) -> bool:
    """Whether nothing else was added. What was broadcast is summed up on its way.

    Nobody knows in which order n parts were added up: each order rounds n - 1 times, by half an eps of at most the sum
    of absolute values, so two orders are up to n - 1 eps of that apart.
    """
    with torch.no_grad():
        total = total.to_dense()
        dense = [part.to_dense().to(total.dtype).sum_to_size(total.shape) for part in parts]
        expected = sum(dense[1:], dense[0])
        if torch.equal(expected, total):
            return True
        size = sum((part.abs() for part in dense[1:]), dense[0].abs())
        allowed = (len(parts) - 1) * torch.finfo(total.dtype).eps * size
        return bool((((expected - total).abs() <= allowed) | ~expected.isfinite()).all())
