"""Layers with a rule of the user's own, each one operation in the graph whatever is inside.

A rule gives the gradients of a layer's own parameters, one per example, from the layer's inputs and the gradient at
its output. Its output and its tensors in have the examples first. The rule is not taken at its word: in every call
the gradients of the examples must add up to what autograd has for the batch.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from gradorder.scores.graph.forms import Dense, Form
from gradorder.scores.graph.operations import Node, Step
from gradorder.scores.graph.place import Place, UnprovenError

LayerRule = Callable[[nn.Module, tuple[Any, ...], torch.Tensor], Mapping[str, torch.Tensor]]
"""(layer, its inputs, gradient at its output) -> the gradients of its parameters by name, each (B, *shape)."""

_TOLERANCE = 1e-3
"""Relative to the largest sum of absolute values: rounding, and no more."""

LayerRules = Mapping[type[nn.Module], LayerRule]


class LayerStep(Step):
    """A call of such a layer: its inputs are the tensors that it was given, then its own trainable parameters."""

    __slots__ = ("inputs", "layer", "names", "num_tensors", "parameters", "rule")

    def __init__(self, node: Node, layer: nn.Module, inputs: tuple[Any, ...], rule: LayerRule) -> None:
        super().__init__(node, [None] * len(node._input_metadata))  # noqa: SLF001 - no public way
        self.kind = type(layer).__name__
        self.layer, self.inputs, self.rule = layer, inputs, rule
        own = {name: each for name, each in layer.named_parameters(recurse=False) if each.requires_grad}
        self.names, self.parameters = list(own), list(own.values())
        tensors = [get_gradient_edge(each) for each in inputs if isinstance(each, torch.Tensor) and each.requires_grad]
        self.num_tensors = len(tensors)
        edges = tensors + [get_gradient_edge(each) for each in self.parameters]
        self.edges = [(edge.node, edge.output_nr) for edge in edges]

    def input_places(self) -> list[Place | None]:
        """Examples first, everywhere."""
        if self.place.dim != 0 or not self.place.is_plain:
            raise UnprovenError(f"{self.kind}: its rule needs the examples along the first dimension of its output")
        return [self.place] * self.num_tensors + [None] * len(self.parameters)

    def form(self, gradient: torch.Tensor, number: int) -> Form:
        """The gradients of one of its parameters."""
        given = tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in self.inputs)
        if "found" not in self.notes:
            self.notes["found"] = self.rule(self.layer, given, gradient)
            self.notes["whole"] = self._of_batch(given, gradient)
        place = number - self.num_tensors
        name = self.names[place]
        rows, shape = self.notes["found"].get(name), (self.place.size, *self.input_shape(number))
        if not isinstance(rows, torch.Tensor) or tuple(rows.shape) != tuple(shape):
            got = tuple(rows.shape) if isinstance(rows, torch.Tensor) else rows
            raise ValueError(f"the rule for {self.kind} must give {name!r} of shape {tuple(shape)}, got {got}")
        whole = self.notes["whole"][place]
        if bool((rows.sum(0) - whole).abs().max() > _TOLERANCE * rows.abs().sum(0).max()):
            raise ValueError(
                f"the gradients that the rule for {self.kind} gives of {name!r} do not add up to the batch's"
            )
        return Dense(rows)

    def _of_batch(self, given: tuple[Any, ...], gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What autograd has for the batch as a whole; the layer runs again for it."""
        with torch.enable_grad():
            output = self.layer(*given)
            return torch.autograd.grad(output, self.parameters, gradient.to(output.dtype), materialize_grads=True)


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
                    stack.callback(module.register_forward_hook(self._called).remove)
            yield

    def _called(self, layer: nn.Module, args: tuple[Any, ...], output: object) -> None:
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"a layer with a rule must return a tensor, {type(layer).__name__} gave {output!r}")
        if output.grad_fn is not None:
            self.steps[output.grad_fn] = LayerStep(output.grad_fn, layer, args, self._rules[type(layer)])
