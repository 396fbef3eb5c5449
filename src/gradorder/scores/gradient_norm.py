"""Exact per-example gradient norms ||grad f_i(w)||_2 over all trainable parameters.

Three ways, all exact:

- a chain of linear layers and ReLUs is differentiated by hand (`chain`);
- any other model runs once forward and once backward through activations only (`by_graph`), where the autograd graph
  of this very batch proves which numbers belong to which example (`graph.walk`);
- where it proves nothing, each example is differentiated by itself, vectorised by torch.func or one after the other
  (`vectorized`). That is said once for each model, with the reason; `explain_norms` tells more.

In every call one example, drawn anew, is run alone, and its loss and its gradient norm are compared with those in the
batch (`alone`): where they depend on the other examples, there is no gradient of its own, and it is refused. That is a
sample. What concerns every example is found at once; what concerns few of them, when one of these is drawn.
"""

import random
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final
from weakref import WeakSet

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, map_tensors, num_examples
from gradorder.losses import Losses, cross_entropy
from gradorder.scores import vectorized
from gradorder.scores.alone import NEED_NO_MEASUREMENT, Seen, check_alone
from gradorder.scores.by_graph import proved, squared_norms
from gradorder.scores.chain import chain_of, norms_by_hand
from gradorder.scores.graph import Node, UnprovenError
from gradorder.scores.graph.layers import LayerCalls, LayerRules, LayerStep
from gradorder.scores.reference import trainable_parameters
from gradorder.scores.undisturbed import undisturbed
from gradorder.scores.wrapped import unwrapped, with_whole_parameters


@final
@dataclass(frozen=True)
class GradientNorm:
    """The exact gradient norm ||grad f_i(w)||_2 of each example, over all trainable parameters.

    Args:
        losses: a function `(model, batch) -> (B,)` with one loss per example; cross-entropy of a batch
            `(inputs, targets)` if not given.
        rules: for layers that the library does not know, a function `(layer, inputs, gradient at its output) ->
            {name of a parameter: its gradients, (B, *shape)}` by the layer's class. In every call its gradients must
            add up to the batch's.

    Calling it with `(model, batch)` returns a tensor of shape (B,) without grad, float32 or better: the norm
    of the gradient of that example's own loss, not of its share in a mean.

    Example:
        >>> from gradorder import squared_error
        >>> model = nn.Linear(2, 1, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> batch = (torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([1.0, 2.0]))
        >>> GradientNorm(squared_error)(model, batch)  # 2 |y| ||x||
        tensor([10.,  4.])
    """

    losses: Losses | None = None
    rules: LayerRules | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        return gradient_norms(model, batch, self.losses, rules=self.rules)


def gradient_norms(
    model: nn.Module, batch: Batch, losses: Losses | None = None, *, rules: LayerRules | None = None
) -> torch.Tensor:
    """The norms ||grad f_i(w)||_2 of a batch, shape (B,); see `GradientNorm`.

    Raises:
        ValueError: the example that was drawn to be run alone has another loss or another gradient norm there: it
            depends on the other examples of its batch, or is random, or the batch was changed in place.
    """
    model, losses = unwrapped(model), losses or cross_entropy
    layers = None if rules else chain_of(model)
    by_hand = None if layers is None else norms_by_hand(layers, batch, losses)
    if by_hand is not None:
        return by_hand
    parameters = trainable_parameters(with_whole_parameters(model))
    size = num_examples(batch)
    if size == 0:
        return torch.zeros(0, device=parameters[0].device)
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad():
        batch = map_tensors(_outside_inference, batch)
        calls = LayerCalls(rules or {})
        with calls.watching(model):
            values = checks.per_example("losses", losses(model, batch), size)
        try:
            norms = _by_graph(values, parameters, calls.steps)
        except UnprovenError as reason:
            _say_once(model, str(reason))
        else:
            example = _ANY.randrange(size)
            check_alone(model, batch, losses, example, Seen(float(values[example].detach()), float(norms[example])))
            return norms
        values = values.detach()
    return _one_by_one(model, batch, losses, values)


def _by_graph(
    values: torch.Tensor, parameters: list[nn.Parameter], layers: Mapping[Node, LayerStep] | None = None
) -> torch.Tensor:
    found = proved(values, {id(parameter) for parameter in parameters}, layers)
    return squared_norms(values, found).sqrt_()


def _one_by_one(model: nn.Module, batch: Batch, losses: Losses, values: torch.Tensor) -> torch.Tensor:
    """Each example was alone here: what is left to check is that it has a loss of its own among the others, too."""
    norms, alone = vectorized.norms_and_losses(model, batch, losses)
    apart = (alone - values).abs()
    is_different = apart > NEED_NO_MEASUREMENT * torch.finfo(values.dtype).eps * torch.maximum(
        alone.abs(), values.abs()
    )
    if not bool(is_different.any()):
        return norms
    example = int((apart * is_different).nan_to_num(0).argmax())
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad():
        check_alone(model, batch, losses, example, Seen(float(values[example].detach()), float(norms[example])))
    return norms


_ANY = random.SystemRandom()
"""It decides which example is looked at, not what is computed."""


def _outside_inference(tensor: torch.Tensor) -> torch.Tensor:
    """Tensors made in inference mode cannot be part of a graph; their copies can."""
    return tensor.clone() if tensor.is_inference() else tensor


def _say_once(model: nn.Module, reason: str) -> None:
    if model not in _said:
        _said.add(model)
        warnings.warn(
            f"the gradient norms of this {type(model).__name__} are computed one example at a time, which is slow: "
            f"{reason}. explain_norms(model, batch) tells more",
            stacklevel=4,
        )


_said: WeakSet[nn.Module] = WeakSet()
