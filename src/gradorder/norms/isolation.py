"""The fallback: differentiate each example alone, and compare the results with the batch.

It serves where the graph of the batch proves nothing, for example behind an operation without a rule. An example alone
is a batch of one. Its loss and its gradient are those in the batch only if no example depends on another. This is
checked for every call and without chance: all losses are compared with those of the batch, and the sum of all
gradients, each times a fixed weight, with the gradient of the equally weighted losses of the batch. If they differ by
more than rounding, the batch is refused.

The gradients of several examples are computed at once with torch.func, a limited number of entries at a time. Models
that torch.func cannot vectorize (recurrent layers, control flow that depends on data) run one example at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakSet

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from gradorder import checks
from gradorder.batches import Batch, has_only_tensor_rows, num_examples, row_tensors, take, with_row_tensors
from gradorder.checks import widened
from gradorder.errors import is_out_of_memory
from gradorder.losses import Losses, cross_entropy
from gradorder.norms.factored import row_squares
from gradorder.norms.model_state import differentiable, slow_vmap_allowed, trainable_parameters, unwrapped
from gradorder.norms.operation import Node
from gradorder.norms.squared_norms import in_full_precision
from gradorder.norms.walk import has_hooks

MAX_GRADIENT_ENTRIES = 2**24
"""Gradient entries held at once: 64 MiB in float32."""


def per_example_gradients(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """Compute the gradient of each loss of a batch, shape (B, P), in the order of `model.parameters()`.

    Frozen parameters have no columns, and a shared parameter has its columns once. The model is in eval mode.

    Raises:
        ValueError: an example has another loss or another gradient alone than in the batch.
    """
    model, losses = unwrapped(model), losses or cross_entropy
    with differentiable(model):
        parameters = trainable_parameters(model)
        if num_examples(batch) == 0:
            return torch.zeros(0, sum(parameter.numel() for parameter in parameters))
        return _isolated(model, batch, losses, lambda rows: rows)


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses) -> torch.Tensor:
    """The gradient norm of each example, shape (B,); the caller has put the model into eval mode."""
    return _isolated(model, batch, losses, lambda rows: row_squares(rows).sqrt())


def flat_gradient(
    loss: torch.Tensor, parameters: Sequence[torch.Tensor], *, retain_graph: bool = False
) -> torch.Tensor:
    """The gradient of one number over all parameters, as one vector (P,) in float32 or better."""
    if not loss.requires_grad:
        return torch.cat([widened(torch.zeros_like(parameter)).flatten() for parameter in parameters])
    gradients = torch.autograd.grad(
        loss, parameters, retain_graph=retain_graph, allow_unused=True, materialize_grads=True
    )
    return _joined(gradients)


def _joined(gradients: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([widened(gradient.to_dense().flatten()) for gradient in gradients])


# Each example alone -------------------------------------------------------------------------------------------------


Chunk = tuple[torch.Tensor, torch.Tensor]
"""The gradients (c, P) and the losses (c,) of some examples."""


def _isolated(
    model: nn.Module, batch: Batch, losses: Losses, reduce: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """`reduce` of the gradients (c, P) of a few examples at a time, joined, after comparing them with the batch."""
    values = checks.per_example("losses", losses(model, batch), num_examples(batch))
    found = None
    if _may_be_vectorized(model, batch):
        try:
            found = _collected(_vectorized(model, batch, losses), values, reduce)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            # Not vectorizable, or an error of the user's own code, which the loop raises again.
            _not_vectorizable.add(model)
    if found is None:
        found = _collected(one_at_a_time(model, batch, losses), values, reduce)
    _check(model, batch, losses, values, found)
    return found.results


@dataclass(frozen=True, eq=False)
class _Isolated:
    results: torch.Tensor
    losses: torch.Tensor
    is_finite: torch.Tensor
    """True for the examples whose loss and gradient are finite; only these are in the sums."""
    gradient: torch.Tensor
    """The sum of the gradients, each times the weight of its example, (P,)."""
    scale: float
    """The sum of their norms."""


def _collected(
    chunks: Iterator[Chunk], values: torch.Tensor, reduce: Callable[[torch.Tensor], torch.Tensor]
) -> _Isolated:
    weights = _weights(len(values))
    results, losses, finite = [], [], []
    gradient: torch.Tensor | None = None
    scale, start = 0.0, 0
    for rows, values_alone in chunks:
        own = weights[start : start + len(rows)].to(rows)
        start += len(rows)
        with in_full_precision(rows.device):
            norms = row_squares(rows).sqrt()
            is_finite = norms.isfinite() & values_alone.isfinite()
            added = own[is_finite] @ rows[is_finite]
            gradient = added if gradient is None else gradient + added
            scale += float(own[is_finite] @ norms[is_finite])
            results.append(reduce(rows))
        losses.append(values_alone)
        finite.append(is_finite)
    assert gradient is not None  # noqa: S101 - a batch has examples
    return _Isolated(torch.cat(results), torch.cat(losses), torch.cat(finite), gradient, scale)


def _weights(size: int) -> torch.Tensor:
    """Between 0.5 and 1.5, all different, in no order: gradients that go to the wrong example change the sum."""
    return 0.5 + torch.randperm(size, generator=torch.Generator().manual_seed(size)) / max(1, size - 1)


def one_at_a_time(model: nn.Module, batch: Batch, losses: Losses) -> Iterator[Chunk]:
    """Each example as a batch of one, by plain autograd."""
    parameters = trainable_parameters(model)
    for i in range(num_examples(batch)):
        values = checks.per_example("losses", losses(model, take(batch, torch.tensor([i]))), 1)
        yield flat_gradient(values[0], parameters).unsqueeze(0), values.detach()


def _may_be_vectorized(model: nn.Module, batch: Batch) -> bool:
    """False if a parameter has a hook: torch.func differentiates stand-ins of the parameters, without their hooks."""
    if model in _not_vectorizable or any(map(has_hooks, model.parameters())):
        return False
    return has_only_tensor_rows(batch)


_not_vectorizable: WeakSet[nn.Module] = WeakSet()
"""Models on which torch.func has failed; a failure takes time, so they are not tried again."""


def _vectorized(model: nn.Module, batch: Batch, losses: Losses) -> Iterator[Chunk]:
    """A few examples at a time, each as a batch of one, by torch.func."""
    of_batch = _LossesOfBatch(model, losses)
    trainable = {name: each.detach() for name, each in of_batch.named_parameters() if each.requires_grad}

    def loss_of(weights: dict[str, torch.Tensor], *example: torch.Tensor) -> torch.Tensor:
        own = with_row_tensors(batch, [tensor.unsqueeze(0) for tensor in example])
        return checks.per_example("losses", functional_call(of_batch, weights, (own,)), 1)[0]

    differentiated = grad_and_value(loss_of)

    def gradient_and_loss(*example: torch.Tensor) -> Chunk:
        gradients, loss = differentiated(trainable, *example)
        return _joined(gradients.values()), loss

    num_entries = sum(parameter.numel() for parameter in trainable.values())
    chunk_size = max(1, MAX_GRADIENT_ENTRIES // num_entries)
    for rows in zip(*(tensor.split(chunk_size) for tensor in row_tensors(batch)), strict=True):
        with slow_vmap_allowed():
            gradients, values = vmap(gradient_and_loss)(*rows)
        if values.requires_grad:
            raise RuntimeError("a parameter is not reached through the model's attributes: it has no stand-in")
        yield gradients.detach(), values.detach()


# The comparison -----------------------------------------------------------------------------------------------------
#
# Batches of different sizes are summed in different orders, so equal numbers differ by rounding. Relative differences
# below _ROUNDINGS eps are accepted. Beyond that, the rounding noise of this model is measured: the batch runs again
# with every weight changed by one rounding. If a loss is a small difference of large numbers, as in a regression that
# fits, the noise may be as large as the loss.

_ROUNDINGS, _ROUNDINGS_OF_HALF = 2**10, 2
_NOISE, _NOISE_OF_HALF = 32, 4
"""Accepted multiples of the noise. A sum of 1,000 and more products is rounded as often, by up to 8 times the noise."""
_HALF_EPS = torch.finfo(torch.float16).eps
_TF32_EPS = 2.0**-10
"""The precision of float32 products on accelerators."""
_TINY = torch.finfo(torch.float32).tiny
"""Smaller losses lose digits."""
_DRAWS = 4
"""Measurements of the noise, with each weight rounded up or down."""


def _check(model: nn.Module, batch: Batch, losses: Losses, values: torch.Tensor, found: _Isolated) -> None:
    """Raise ValueError if losses or gradients of isolated examples differ from those of the batch."""
    eps = _eps(values)
    in_batch = _Numbers.of(values, found.is_finite, trainable_parameters(model))
    roundings = eps * (_ROUNDINGS_OF_HALF if eps >= _HALF_EPS else _ROUNDINGS)
    differences = (found.losses - in_batch.losses).abs()
    is_off = differences > roundings * torch.maximum(found.losses.abs(), in_batch.losses.abs()) + _TINY
    difference = float((found.gradient - in_batch.gradient).norm())
    if not bool(is_off.any()) and difference <= roundings * found.scale + _TINY:
        return
    _refuse_random(in_batch.losses, losses(model, batch).detach(), roundings)
    noise = _noise(model, batch, losses, found.is_finite, in_batch, eps=eps)
    times = _NOISE_OF_HALF if eps >= _HALF_EPS else _NOISE
    is_off &= differences > times * noise.losses
    if bool(is_off.any()):
        example = int((differences * is_off).nan_to_num(0).argmax())
        raise ValueError(
            f"the loss of one example depends on other examples of the batch: example {example} has the loss "
            f"{float(found.losses[example]):.6g} alone and {float(in_batch.losses[example]):.6g} in the batch. Its "
            "gradient cannot be computed, because the graph of the batch does not separate the examples either"
        )
    if not difference <= max(roundings * found.scale, times * float(noise.gradient)) + _TINY:
        raise ValueError(
            "the gradient of one example depends on other examples of the batch: the gradients of the examples, each "
            f"computed alone, do not add up to the gradient of the batch (difference {difference:.3g}, sum of norms "
            f"{found.scale:.3g}), and the graph of the batch does not separate the examples either"
        )


def _refuse_random(first: torch.Tensor, second: torch.Tensor, roundings: float) -> None:
    if bool(((first - second).abs() > roundings * first.abs() + _TINY).any()):
        raise ValueError(
            "losses must be the same each time the model runs in eval mode, but they are random. Turn the randomness "
            "off in eval mode, for example with F.dropout(x, training=self.training)"
        )


class _Numbers(NamedTuple):
    """The losses of a batch, and the gradient of the weighted losses that are finite; or how much they change."""

    losses: torch.Tensor
    gradient: torch.Tensor

    @classmethod
    def of(cls, values: torch.Tensor, is_finite: torch.Tensor, parameters: Sequence[torch.Tensor]) -> "_Numbers":
        weighted = values * _weights(len(values)).to(values)
        return cls(values.detach(), flat_gradient(weighted[is_finite].sum(), parameters))


def _noise(
    model: nn.Module, batch: Batch, losses: Losses, is_finite: torch.Tensor, at_weights: _Numbers, *, eps: float
) -> _Numbers:
    """The largest changes of the losses and of the gradient when every weight is rounded up or down."""
    of_batch = _LossesOfBatch(model, losses)
    generator = torch.Generator().manual_seed(0)
    of_losses, of_gradient = torch.zeros_like(at_weights.losses), at_weights.gradient.new_zeros(())
    for _ in range(_DRAWS):
        weights = {name: _rounded(p, eps, generator) for name, p in of_batch.named_parameters()}
        trainable = [weight for weight in weights.values() if weight.requires_grad]
        rounded = _Numbers.of(functional_call(of_batch, weights, (batch,)), is_finite, trainable)
        of_losses = torch.maximum(of_losses, (rounded.losses - at_weights.losses).abs())
        of_gradient = torch.maximum(of_gradient, (rounded.gradient - at_weights.gradient).norm())
    return _Numbers(of_losses, of_gradient)


class _LossesOfBatch(nn.Module):
    """The losses of a batch as a module, so that `functional_call` reaches the weights of the user's model."""

    def __init__(self, model: nn.Module, losses: Losses) -> None:
        super().__init__()
        self.model = model
        self._losses = losses

    def forward(self, batch: Batch) -> torch.Tensor:
        return self._losses(self.model, batch)


def _rounded(parameter: torch.Tensor, eps: float, generator: torch.Generator) -> torch.Tensor:
    """The parameter with every number one rounding larger or smaller."""
    if not parameter.is_floating_point():
        return parameter
    signs = torch.randint(2, parameter.shape, generator=generator, dtype=torch.int8).mul_(2).sub_(1)
    changed = parameter.detach() * (1 + eps * signs.to(parameter.device, torch.float64)).to(parameter.dtype)
    return changed.requires_grad_(parameter.requires_grad)


def _eps(values: torch.Tensor) -> float:
    """The rounding of the coarsest numbers in the graph of the losses; autocast may be inside the losses."""
    dtypes = {values.dtype, *_dtypes_behind(values)}
    eps = max(torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point or dtype.is_complex)
    return max(eps, _TF32_EPS) if values.device.type != "cpu" and torch.float32 in dtypes else eps


def _dtypes_behind(losses: torch.Tensor) -> Iterator[torch.dtype]:
    seen: set[Node] = set()
    stack = [losses.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield from (each.dtype for each in node._input_metadata)  # noqa: SLF001 - no public way
            stack.extend(child for child, _ in node.next_functions)
