"""Exact per-example gradient norms out of the user's own training step: no extra pass.

In the backward pass of L = sum_i w_i f_i (w_i = 1/B for a mean, times any loss scaling) the gradient at a layer's
output row i is w_i times that of f_i. So the squared norms are collected as for a score, and divided by w_i^2, which
is read as the gradient that reaches the losses.

Nothing is added to the graph, so the gradients that the optimizer sees are the same to the bit. A model's first batch
is checked: that no example's loss depends on another example's rows, and that the gradients seen add up to those that
the parameters get. A model that fails cannot be observed, and the error says why.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import nn

from gradorder.scores.layers.attention import padded_rows
from gradorder.scores.layers.forms import Dense, Form
from gradorder.scores.reference import trainable_parameters
from gradorder.scores.trace import LayerWatch, Rows, SquaredNorms, in_full_precision
from gradorder.scores.wrapped import has_flat_parameters, unwrapped

_SUM_TOLERANCE = 1e-2


@contextmanager
def observe_gradient_norms(model: nn.Module) -> Iterator["SeenGradients"]:
    """Read exact per-example gradient norms from the training steps inside this context.

    Example:
        >>> from torch.nn import functional as F
        >>> model = nn.Linear(4, 3)
        >>> x, y = torch.randn(8, 4), torch.randint(3, (8,))
        >>> with observe_gradient_norms(model) as seen:
        ...     losses = F.cross_entropy(model(x), y, reduction="none")
        ...     seen.losses(losses).mean().backward()
        ...     norms = seen.norms
        >>> norms.shape
        torch.Size([8])

    Any reduction, weighting, loss scaling or gradient accumulation may follow `seen.losses`. The model trains as it is,
    in training mode: BatchNorm with batch statistics has no per-example gradient and raises at its first forward pass;
    frozen BatchNorm (in eval mode) is fine.

    In `DistributedDataParallel` and `fully_shard` each process reads the norms of its own slice; they are those that
    one process would read.
    """
    with SeenGradients(model).watching() as seen:
        yield seen


@dataclass(eq=False)
class _Pass:
    """One forward pass, and what its backward pass brought."""

    norms: SquaredNorms = field(default_factory=SquaredNorms)
    weights: torch.Tensor | None = None
    is_sealed: bool = False
    outputs: list[torch.Tensor] = field(default_factory=list)


class SeenGradients:
    """What `observe_gradient_norms` gives."""

    def __init__(self, model: nn.Module) -> None:
        model = unwrapped(model)
        if has_flat_parameters(model):
            raise ValueError(
                "model must keep its layers' parameters to be observed, got one in FullyShardedDataParallel: "
                "use fully_shard or DistributedDataParallel"
            )
        self._model = model
        self._parameters = trainable_parameters(model)
        self._watch = _TrainingWatch(model, self._parameters)
        self._parts = tuple(map(id, self._watch.modules))
        self._checks: _SumCheck | None = None
        self._told: _Pass | None = None

    @contextmanager
    def watching(self) -> Iterator["SeenGradients"]:
        """While the context lasts."""
        with self._watch.on(), self._watch.refusing_batch_statistics(), ExitStack() as stack:
            self._stack = stack
            yield self

    def losses(self, losses: torch.Tensor) -> torch.Tensor:
        """Tell the losses of the batch, one per example, before they are reduced; returns them unchanged."""
        if losses.ndim != 1 or not losses.requires_grad:
            raise ValueError(
                "losses must hold one number per example, with grad, shape (B,), "
                f'got shape {tuple(losses.shape)}: use reduction="none"'
            )
        self._finish_check()
        done = self._watch.running
        done.is_sealed = True
        self._told = done
        done.norms.num_examples = len(losses)
        if _checked.get(self._model) != self._parts:
            self._check_rows(losses, done)
            self._checks = _SumCheck(self._parameters, done.norms, self._stack)
        done.outputs.clear()

        def arrived(weights: torch.Tensor) -> None:
            if not self._watch.is_paused:
                done.weights = weights.detach()
                done.norms.restart()
                if self._checks is not None:
                    self._checks.restart()

        losses.register_hook(arrived)
        return losses

    @property
    def norms(self) -> torch.Tensor:
        """||grad f_i|| of the batch whose backward pass has just run, shape (B,).

        Each example's contribution to the gradients divided by |dL / df_i|; an example with weight zero has none.
        """
        done = self._told
        if done is None:
            raise RuntimeError("norms are there after seen.losses(losses) and a backward pass: losses were not told")
        if done.weights is None:
            raise RuntimeError("norms are there after the backward pass: call backward() on the reduced losses first")
        self._finish_check()
        if bool((done.weights == 0).any()):
            zero = (done.weights == 0).nonzero().flatten()
            raise ValueError(
                f"every example must have a weight in the loss, but {len(zero)} of {len(done.weights)} have none "
                f"(first: example {int(zero[0])}): its gradient cannot be seen"
            )
        with in_full_precision(done.weights.device):
            squares = done.norms.squares()
        if squares is None:
            return torch.zeros(len(done.weights), device=done.weights.device)
        return squares.sqrt() / done.weights.abs().to(squares.dtype)

    def _finish_check(self) -> None:
        """The first batch's gradients are compared before anything else happens."""
        if self._checks is None or self._told is None:
            return
        if self._told.weights is None:
            raise RuntimeError("the first batch is checked: run its backward pass before the next seen.losses(...)")
        self._checks.compare()
        self._checks = None
        _checked[self._model] = self._parts

    def _check_rows(self, losses: torch.Tensor, done: _Pass) -> None:
        """The first example's loss must depend on nobody else's rows."""
        size = len(losses)
        outputs = [output for output in done.outputs if len(output) == size]
        if size == 1 or not outputs:
            return
        with self._watch.paused():
            gradients = torch.autograd.grad(losses[0], outputs, retain_graph=True, allow_unused=True)
        for gradient in gradients:
            if gradient is not None and bool((gradient[1:] != 0).any()):
                raise ValueError(
                    "the loss of one example depends on other examples of the batch: there is no per-example gradient"
                )


_checked: WeakKeyDictionary[nn.Module, tuple[int, ...]] = WeakKeyDictionary()
"""Models whose first batch was checked, and the modules they had then."""


class _TrainingWatch(LayerWatch):
    """The user's own graph, looked at and left alone."""

    def __init__(self, model: nn.Module, parameters: list[nn.Parameter]) -> None:
        super().__init__(model, parameters)
        self.running = _Pass()

    def current(self) -> SquaredNorms:
        if self.running.is_sealed:
            self.running = _Pass()
        return self.running.norms

    def graph_output(self, output: torch.Tensor, *, is_fresh: bool) -> torch.Tensor:
        del is_fresh
        return output

    def seen(self, output: torch.Tensor) -> None:
        self.running.outputs.append(output)

    @contextmanager
    def refusing_batch_statistics(self) -> Iterator[None]:
        """BatchNorm that normalises by the batch raises at its first forward pass."""

        def refuse(module: nn.Module, _args: object) -> None:
            assert isinstance(module, nn.modules.batchnorm._BatchNorm)  # noqa: S101, SLF001
            if module.training or module.running_mean is None:
                raise ValueError(
                    f"{type(module).__name__} normalises by the batch here, so there is no per-example gradient: put "
                    "it in eval mode (layer.eval() after model.train()), or use GroupNorm or LayerNorm"
                )

        with ExitStack() as stack:
            for module in self.modules:
                if isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
                    stack.callback(module.register_forward_pre_hook(refuse).remove)
            yield


class _SumCheck:
    """Whether the gradients that were seen add up to those that the parameters got: was every use of them seen?"""

    def __init__(self, parameters: list[nn.Parameter], norms: SquaredNorms, stack: ExitStack) -> None:
        self._parameters = parameters
        self._norms = norms
        self._seen: dict[int, torch.Tensor] = {}
        self._got: dict[int, torch.Tensor] = {}
        norms.on_form = self._add
        self._handles = ExitStack()
        stack.enter_context(self._handles)
        for parameter in parameters:
            self._handles.callback(parameter.register_hook(self._keeper(parameter)).remove)

    def restart(self) -> None:
        """Forget what an earlier backward pass brought."""
        self._seen.clear()

    def compare(self) -> None:
        """Raise if they do not."""
        self._norms.on_form = None
        self._handles.close()
        for parameter in self._parameters:
            got = self._got.get(id(parameter))
            if got is None:
                continue
            total = self._seen.get(id(parameter), torch.zeros_like(got))
            scale = got.abs().max() + total.abs().max() + torch.finfo(got.dtype).tiny
            if (got - total.reshape(got.shape).to(got.dtype)).abs().max() > _SUM_TOLERANCE * scale:
                raise ValueError(
                    f"a parameter of shape {tuple(parameter.shape)} is also used outside of the layers that hold it, "
                    "so its per-example gradients cannot be seen: use gradient_norms, or a layer for that use"
                )

    def _keeper(self, parameter: nn.Parameter):  # type: ignore[no-untyped-def]  # noqa: ANN202
        def keep(gradient: torch.Tensor) -> None:
            self._got[id(parameter)] = gradient.detach().clone()

        return keep

    def _add(self, parameter: nn.Parameter, form: Form, rows: Rows | None) -> None:
        total = form.total()
        if rows is not None:
            part = Dense(total.reshape(1, -1, *parameter.shape[1:]))
            total = padded_rows(part, rows, len(parameter)).total()
        total = total.reshape(parameter.shape)
        known = self._seen.get(id(parameter))
        self._seen[id(parameter)] = total if known is None else known + total
