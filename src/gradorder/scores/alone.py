"""Whether an example has the same loss and the same gradient norm alone as among the others of its batch.

The graph of a batch does not show everything: not statistics of the batch that were detached, nor what hooks on
activations do. So the example is run alone, with plain autograd, and both numbers are compared.

Batches of other sizes are summed in another order, so the numbers differ by rounding. How much that is depends on the
model: where the loss is a small difference of large numbers, as in a regression that fits, it may be all of the loss.
So where two numbers differ, rounding is measured: the example is run again with every weight changed by one rounding.
It is also run in a batch of its copies, which is summed as the batch itself was: there it must be closer still.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import functional_call

from gradorder import checks
from gradorder.batches import Batch, num_examples, row_tensors, take
from gradorder.losses import Losses
from gradorder.precision import widened
from gradorder.scores.graph import Node
from gradorder.scores.loss_module import LossModule
from gradorder.scores.reference import trainable_parameters

_HALF_EPS = torch.finfo(torch.float16).eps
_TF32_EPS = 2.0**-10
"""Of float32 on an accelerator, which may multiply in fewer digits."""

NEED_NO_MEASUREMENT, _NONE_IN_HALF = 2**10, 1
"""Numbers that are so many roundings of their own size apart need no measurement."""

_BEYOND, _BEYOND_HALF = 32, 4
"""So many times what a rounding of every weight changes is no rounding any more.

A sum of n products is rounded n times on its way: of a thousand and more, by up to 8 times that much. In half precision
no sum is kept.
"""

_TINY = torch.finfo(torch.float32).tiny
"""Smaller losses lose digits, and norms lose theirs where the squares are as small."""

_DRAWS = 4
"""Of roundings, each weight up or down."""


@dataclass(frozen=True)
class Seen:
    """The loss of one example, and the norm of its gradient."""

    loss: float
    norm: float

    def is_near(self, other: "Seen", loss: float, norm: float) -> bool:
        """Whether they are no further apart than this; what is not a number is no difference."""
        return not (abs(self.loss - other.loss) > loss or abs(self.norm - other.norm) > norm)

    def is_close(self, other: "Seen", eps: float) -> bool:
        """Whether they are apart by some roundings of their own size."""
        part = eps * (_NONE_IN_HALF if eps >= _HALF_EPS else NEED_NO_MEASUREMENT)
        loss, norm = max(abs(self.loss), abs(other.loss)), max(self.norm, other.norm)
        return self.is_near(other, part * loss + _TINY, part * norm + math.sqrt(_TINY))

    def differs_in(self, other: "Seen") -> str:
        """In which of the two numbers more, for a message."""
        of_loss = abs(self.loss - other.loss) * max(self.norm, other.norm)
        of_norm = abs(self.norm - other.norm) * max(abs(self.loss), abs(other.loss))
        return "loss" if of_loss >= of_norm else "gradient"

    def beside(self, other: "Seen") -> str:
        """That number."""
        is_loss = self.differs_in(other) == "loss"
        return f"the loss {self.loss:.6g}" if is_loss else f"the gradient norm {self.norm:.6g}"


def check_alone(model: nn.Module, batch: Batch, losses: Losses, example: int, among: Seen) -> None:
    """Refuse an example whose loss or gradient norm alone is another than `among` the others, but for rounding.

    Raises:
        ValueError: the loss is random, or the batch is changed in place, or the example depends on the others.
    """
    index = torch.tensor([example])
    own = take(batch, index)
    alone, loss = _run(model, own, losses)
    if alone.is_close(among, _eps([loss.dtype, *(p.dtype for p in model.parameters())], loss.device)):
        return
    eps = _eps(_dtypes_behind(loss), loss.device)  # autocast may be inside the losses
    again, _ = _run(model, take(batch, index), losses)
    if not again.is_close(alone, eps):
        raise ValueError(
            "losses must be the same each time that the model runs, in eval mode, but example "
            f"{example} has {alone.beside(again)}, then {again.beside(alone)}: is there something random that eval "
            "mode does not turn off, such as F.dropout(x) without training=self.training?"
        )
    if alone.is_close(among, eps):
        return
    rounding = _rounding(model, take(batch, index), losses, alone, eps)
    times = _BEYOND_HALF if eps >= _HALF_EPS else _BEYOND
    if alone.is_near(among, times * rounding.loss, times * rounding.norm):
        copies = losses(model, take(batch, torch.full((num_examples(batch),), example)))
        in_copies = Seen(float(copies[example].detach()), among.norm)
        if in_copies.is_close(among, eps) or in_copies.is_near(among, rounding.loss, rounding.norm):
            return
    if any(tensor._version for tensor in row_tensors(own)):  # noqa: SLF001 - no public way
        raise ValueError(
            f"the model or its losses must not change their batch in place: example {example} has "
            f"{among.beside(alone)} at first and {alone.beside(among)} afterwards"
        )
    raise ValueError(
        f"the {alone.differs_in(among)} of one example depends on other examples of the batch, so that it has no "
        f"gradient of its own: example {example} has {alone.beside(among)} alone and {among.beside(alone)} among "
        "the others"
    )


def _run(model: nn.Module, own: Batch, losses: Losses) -> tuple[Seen, torch.Tensor]:
    # With grad, as losses may differentiate themselves.
    loss = checks.per_example("losses", losses(model, own), 1)[0]
    return Seen(float(loss.detach()), _norm(loss, trainable_parameters(model))), loss


def _norm(loss: torch.Tensor, parameters: Sequence[torch.Tensor]) -> float:
    """The norm of the gradient, of which no more than one parameter's is held at a time: a model may be large."""
    if not loss.requires_grad:
        return 0.0
    squares: list[torch.Tensor] = []

    def squared(gradient: torch.Tensor) -> torch.Tensor:
        flat = widened(gradient.detach().to_dense().flatten())
        squares.append(torch.linalg.vecdot(flat, flat).real)
        return gradient if gradient.is_sparse else gradient.new_zeros(()).expand_as(gradient)

    hooks = [parameter.register_hook(squared) for parameter in parameters]
    try:
        torch.autograd.grad(loss, parameters, allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def _rounding(model: nn.Module, own: Batch, losses: Losses, alone: Seen, eps: float) -> Seen:
    """How far an example is brought from what it is alone where every weight is rounded."""
    with_losses = LossModule(model, losses)
    generator = torch.Generator().manual_seed(0)
    loss = norm = 0.0
    for _ in range(_DRAWS):
        weights = {name: _rounded(p, eps, generator) for name, p in with_losses.named_parameters()}
        value = functional_call(with_losses, weights, (take(own, torch.tensor([0])),))[0]
        gradient_norm = _norm(value, [weight for weight in weights.values() if weight.requires_grad])
        loss, norm = max(loss, abs(float(value.detach()) - alone.loss)), max(norm, abs(gradient_norm - alone.norm))
    return Seen(loss, norm)


def _rounded(parameter: torch.Tensor, eps: float, generator: torch.Generator) -> torch.Tensor:
    """With every number a rounding larger or smaller."""
    if not (parameter.is_floating_point() or parameter.is_complex()):
        return parameter
    signs = torch.randint(2, parameter.shape, generator=generator, dtype=torch.int8).mul_(2).sub_(1)
    changed = parameter.detach() * (1 + eps * signs.to(parameter.device, torch.float64)).to(parameter.dtype)
    return changed.requires_grad_(parameter.requires_grad)


def _eps(dtypes: Iterable[torch.dtype], device: torch.device) -> float:
    """The rounding of the coarsest of these numbers."""
    known = {dtype for dtype in dtypes if dtype.is_floating_point or dtype.is_complex}
    if torch.is_autocast_enabled(device.type):
        known.add(torch.get_autocast_dtype(device.type))
    eps = max(torch.finfo(dtype).eps for dtype in known)
    return max(eps, _TF32_EPS) if device.type != "cpu" and torch.float32 in known else eps


def _dtypes_behind(loss: torch.Tensor) -> Iterator[torch.dtype]:
    """Of all numbers that this one was made of by differentiable operations."""
    yield loss.dtype
    seen: set[Node] = set()
    stack = [loss.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield from (each.dtype for each in node._input_metadata)  # noqa: SLF001 - no public way
            stack.extend(child for child, _ in node.next_functions)
