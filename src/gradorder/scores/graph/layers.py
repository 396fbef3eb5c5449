"""Layers with a rule of the user's own, each one operation in the graph whatever is inside.

A rule gives the gradients of a layer's parameters, one per example, from the layer's inputs and the gradient at
its output. Its output and its tensors in have the examples first. The rule is not taken at its word: in every call
the gradients of the examples, each with a weight of its own, must add up to what autograd has for the batch with
these weights.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge
from torch.utils._pytree import tree_leaves, tree_map_only

from gradorder.scores.graph.forms import Dense, Form
from gradorder.scores.graph.operations import LEAF, Node, Step
from gradorder.scores.graph.place import Place, UnprovenError

LayerRule = Callable[[nn.Module, tuple[Any, ...], torch.Tensor], Mapping[str, torch.Tensor]]
"""(layer, its inputs, gradient at its output) -> the gradients of its parameters by name, each (B, *shape)."""

_TOLERANCE = 1e-3
"""Relative to the largest sum of absolute values: rounding, and no more."""

LayerRules = Mapping[type[nn.Module], LayerRule]


class LayerStep(Step):
    """A call of such a layer: its inputs are the tensors that it was given, then its trainable parameters."""

    __slots__ = ("inputs", "keywords", "layer", "lengths", "names", "parameters", "rule")

    def __init__(
        self, node: Node, layer: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], rule: LayerRule
    ) -> None:
        super().__init__(node, [None] * len(node._input_metadata))  # noqa: SLF001 - no public way
        self.kind = type(layer).__name__
        self.layer, self.inputs, self.keywords, self.rule = layer, inputs, keywords, rule
        own = {name: each for name, each in layer.named_parameters() if each.requires_grad}
        self.names, self.parameters = list(own), list(own.values())
        given = tree_leaves((inputs, keywords))
        tensors = [each for each in given if isinstance(each, torch.Tensor) and each.requires_grad]
        self.lengths = [each.shape[:1] for each in tensors]
        edges = [get_gradient_edge(each) for each in [*tensors, *self.parameters]]
        self.edges = [(edge.node, edge.output_nr) for edge in edges]

    def input_places(self) -> list[Place | None]:
        """Examples first, everywhere."""
        place = self.place
        if place.dim != 0 or not place.is_plain or any(length != (place.size,) for length in self.lengths):
            raise UnprovenError(
                f"{self.kind}: its rule needs the examples along the first dimension of its output and its inputs"
            )
        self._check_nothing_else_is_behind()
        return [place] * len(self.lengths) + [None] * len(self.parameters)

    def _check_nothing_else_is_behind(self) -> None:
        """A parameter that is neither in the layer nor behind its inputs would be left out."""
        seen = set(self.edges)
        stack: list[Node] = [self.node]
        while stack:
            node = stack.pop()
            if type(node).__name__ == LEAF and isinstance(node.variable, nn.Parameter):
                shape = tuple(node.variable.shape)
                raise UnprovenError(
                    f"{self.kind}: it uses a parameter of shape {shape} that is no parameter of its own"
                )
            new = [edge for edge in node.next_functions if edge[0] is not None and edge not in seen]
            seen.update(new)
            stack.extend(child for child, _ in new)

    def form(self, gradient: torch.Tensor, number: int) -> Form:
        """The gradients of one of its parameters."""
        if "found" not in self.notes:
            weights = _different_weights(self.place.size).to(gradient)
            self.notes["weights"] = weights
            self.notes["found"] = self.rule(self.layer, _detached(self.inputs), gradient)
            self.notes["weighted"] = self._of_batch(_times_rows(weights, gradient))
        place = number - len(self.lengths)
        name = self.names[place]
        rows, shape = self.notes["found"].get(name), (self.place.size, *self.input_shape(number))
        if not isinstance(rows, torch.Tensor) or tuple(rows.shape) != tuple(shape):
            got = tuple(rows.shape) if isinstance(rows, torch.Tensor) else rows
            raise ValueError(f"the rule for {self.kind} must give {name!r} of shape {tuple(shape)}, got {got}")
        weighted = _times_rows(self.notes["weights"], rows)
        difference = weighted.sum(0) - self.notes["weighted"][place]
        if bool(difference.abs().max() > _TOLERANCE * weighted.abs().sum(0).max()):
            raise ValueError(
                f"the gradients that the rule for {self.kind} gives of {name!r} do not add up to the batch's"
            )
        return Dense(rows)

    def _of_batch(self, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What autograd has for the batch as a whole; the layer runs again for it."""
        with torch.enable_grad():
            output = self.layer(*_detached(self.inputs), **_detached(self.keywords))
            return torch.autograd.grad(output, self.parameters, gradient.to(output.dtype), materialize_grads=True)


def _detached(inputs: Any) -> Any:  # noqa: ANN401 - whatever a layer takes
    return tree_map_only(torch.Tensor, torch.Tensor.detach, inputs)


def _different_weights(size: int) -> torch.Tensor:
    """Between 0.5 and 1.5, no two alike, in no order: gradients of other examples do not add up with them."""
    return 0.5 + torch.randperm(size, generator=torch.Generator().manual_seed(size)) / max(1, size - 1)


def _times_rows(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return weights.view(-1, *[1] * (rows.ndim - 1)) * rows


class LayerCalls:
    """The calls, in one forward pass, of layers that have a rule of the user's own."""

    def __init__(self, rules: LayerRules) -> None:
        for kind, rule in rules.items():
            if not (isinstance(kind, type) and issubclass(kind, nn.Module) and callable(rule)):
                raise TypeError(f"rules must map classes of layers to functions, got {kind!r}: {rule!r}")
        self._rules = rules
        self.steps: dict[Node, LayerStep] = {}

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """While the model runs."""
        with ExitStack() as stack:
            for module in model.modules() if self._rules else ():
                if type(module) in self._rules:
                    stack.callback(module.register_forward_hook(self._called, with_kwargs=True).remove)
            yield

    def _called(self, layer: nn.Module, args: tuple[Any, ...], keywords: dict[str, Any], output: object) -> None:
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"a layer with a rule must return a tensor, {type(layer).__name__} gave {output!r}")
        if output.grad_fn is not None:
            rule = self._rules[type(layer)]
            self.steps[output.grad_fn] = LayerStep(output.grad_fn, layer, args, keywords, rule)
