"""Exact per-example gradient norms ||grad f_i(w)||_2 over all trainable parameters.

Three ways, all exact:

- a chain of linear layers and ReLUs is differentiated by hand (`chain`);
- other models run once forward and once backward through activations only, and a rule per layer turns what
  passes by into norms (`trace`);
- models whose layers cannot be told apart by example go through torch.func or one example at a time
  (`vectorized`).

The first two need every row of a layer to belong to one example. The first time that a model is scored with a loss,
the norms of a few examples are compared with the reference; a model that fails goes the next way from then on.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.autograd.function import FunctionCtx

from gradorder import checks
from gradorder.batches import Batch, num_examples, take
from gradorder.losses import Losses, cross_entropy
from gradorder.scores import reference, vectorized
from gradorder.scores.chain import chain_of, norms_by_hand, norms_of_any_loss
from gradorder.scores.layers.fallback import UnknownLayoutError
from gradorder.scores.trace import LayerWatch, SquaredNorms, in_full_precision
from gradorder.scores.undisturbed import undisturbed
from gradorder.scores.wrapped import unwrapped

_NUM_COMPARED = 2
_TOLERANCE = 1e-4


@final
@dataclass(frozen=True)
class GradientNorm:
    """The exact gradient norm ||grad f_i(w)||_2 of each example, over all trainable parameters.

    Args:
        losses: a function `(model, batch) -> (B,)` with one loss per example; cross-entropy of a batch
            `(inputs, targets)` if not given.

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

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One score per example, shape (B,)."""
        return gradient_norms(model, batch, self.losses)


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """The norms ||grad f_i(w)||_2 of a batch, shape (B,); see `GradientNorm`."""
    model, losses = unwrapped(model), losses or cross_entropy
    layers = chain_of(model)
    if layers is not None:
        by_hand = norms_by_hand(layers, batch, losses)
        if by_hand is not None:
            return by_hand
    way = _way(model, batch, losses, is_chain=layers is not None)
    if way is _Way.CHAIN and layers is not None:
        return norms_of_any_loss(model, layers, batch, losses)
    if isinstance(way, _Layout):
        return _traced_norms(model, batch, losses, way)[0]
    return vectorized.gradient_norms(model, batch, losses)


class _Way(Enum):
    CHAIN = auto()
    VECTORIZED = auto()


@dataclass(frozen=True, eq=False)
class _Layout:
    """The way of tracing, and which layers run once for the whole batch: embeddings of positions."""

    once: frozenset[nn.Module] | None = None
    """None: not known yet, to be told by their shapes."""


def _way(model: nn.Module, batch: Batch, losses: Losses, *, is_chain: bool) -> _Way | _Layout:
    """The fastest way that gives the reference's numbers for this model and loss, found out once."""
    key = (getattr(losses, "__code__", losses), tuple(map(id, model.modules())), is_chain)
    known = _ways.setdefault(model, {})
    if key not in known:
        refuse_batch_statistics(model)
        size = num_examples(batch)
        found = _compared(model, take(batch, torch.arange(min(size, _NUM_COMPARED))), losses)
        if size == 1:
            return found  # one example says nothing about rows
        known[key] = found
    return known[key]


_ways: WeakKeyDictionary[nn.Module, dict[Any, _Way | _Layout]] = WeakKeyDictionary()


def _compared(model: nn.Module, batch: Batch, losses: Losses) -> _Way | _Layout:
    expected = reference.gradient_norms(model, batch, losses)

    def agrees(norms: torch.Tensor) -> bool:
        return torch.allclose(norms, expected, rtol=_TOLERANCE, atol=1e-12)

    layers = chain_of(model)
    if layers is not None:
        with suppress(UnknownLayoutError):
            if agrees(norms_of_any_loss(model, layers, batch, losses)):
                return _Way.CHAIN
    with suppress(UnknownLayoutError):
        norms, layout = _traced_norms(model, batch, losses, _Layout())
        if agrees(norms):
            return layout
    return _Way.VECTORIZED


def _traced_norms(model: nn.Module, batch: Batch, losses: Losses, layout: _Layout) -> tuple[torch.Tensor, _Layout]:
    size = num_examples(batch)
    parameters = reference.trainable_parameters(model)
    watch = _ScoringWatch(model, parameters, size, layout)
    with undisturbed(model), torch.inference_mode(mode=False), torch.enable_grad(), _without_attention_fast_path():
        for parameter in parameters:
            parameter.requires_grad_(False)
        with watch.on():
            values = checks.per_example("losses", losses(model, batch), size)
            if values.requires_grad:
                torch.autograd.grad(values.sum(), watch.start, allow_unused=True)
            with in_full_precision(values.device):
                squares = watch.norms.squares()
    norms = torch.zeros(size, device=values.device) if squares is None else squares.sqrt_()
    return norms, watch.layout()


class _ScoringWatch(LayerWatch):
    """The weights are constants here, so that the graph begins at the first watched layer."""

    def __init__(self, model: nn.Module, parameters: list[nn.Parameter], size: int, layout: _Layout) -> None:
        super().__init__(model, parameters)
        self.has_one_backward = True
        self.norms = SquaredNorms(size)
        self.start = torch.zeros((), requires_grad=True)
        self._size = size
        self._known_once = layout.once
        self._once: set[nn.Module] = set()

    def layout(self) -> _Layout:
        return _Layout(frozenset(self._once) if self._known_once is None else self._known_once)

    def current(self) -> SquaredNorms:
        return self.norms

    def spread(
        self, module: nn.Module, inputs: torch.Tensor, output: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions (T,) or (1, T) are looked up once for all: written out, each example has its own gradient."""
        if not isinstance(module, nn.Embedding) or not self._is_once(module, inputs):
            return inputs, output
        if len(inputs) != 1 or inputs.ndim == 1:
            inputs, output = inputs.unsqueeze(0), output.unsqueeze(0)
        self._once.add(module)
        copies = output.expand(self._size, *output.shape[1:]).contiguous()
        return inputs.expand(self._size, *inputs.shape[1:]), copies

    def _is_once(self, module: nn.Module, inputs: torch.Tensor) -> bool:
        if self._known_once is not None:
            return module in self._known_once
        return len(inputs) != self._size and (inputs.ndim == 1 or len(inputs) == 1)

    def graph_output(self, output: torch.Tensor, *, is_fresh: bool) -> torch.Tensor:
        if output.requires_grad or not output.is_floating_point():
            return output
        joined: torch.Tensor = _Joined.apply(output if is_fresh else output.clone(), self.start)  # type: ignore[no-untyped-call]
        return joined


class _Joined(torch.autograd.Function):
    """The tensor itself, from here on part of the graph that leads to `start`."""

    @staticmethod
    def forward(ctx: FunctionCtx, output: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        del start
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        del ctx, gradient
        return None, None


def refuse_batch_statistics(model: nn.Module) -> None:
    """BatchNorm without running statistics mixes the examples of a batch even in eval mode."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:  # noqa: SLF001
            raise ValueError(
                f"{type(module).__name__} {name!r} has track_running_stats=False: it normalises by the batch, so there "
                "is no per-example gradient. Use running statistics, GroupNorm or LayerNorm"
            )


@contextmanager
def _without_attention_fast_path() -> Iterator[None]:
    """Transformer layers take a shortcut past their parts where no weight requires grad."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(value=False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(value=before)
