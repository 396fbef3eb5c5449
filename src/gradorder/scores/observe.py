"""Exact per-example gradient norms out of the user's own training step: no extra pass.

In the backward pass of L = sum_i w_i f_i (w_i = 1/B for a mean, times any loss scaling) the gradient at a number that
only f_i depends on is w_i times that of f_i. So the squared norms are collected as for a score, and divided by w_i^2,
which is read as the gradient that reaches the losses.

Nothing is added to the graph, so the gradients that the optimizer sees are the same to the bit. For every batch the
graph proves which numbers belong to which example (`graph.walk`), and every gradient that arrives on the way is seen
to come from the losses and from nowhere else: another term of the same backward pass is noticed. What cannot be proved
is refused, and the error says why.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn

from gradorder.errors import is_out_of_memory
from gradorder.precision import widened
from gradorder.scores.arrivals import Arrivals
from gradorder.scores.by_graph import in_full_precision, met, passed_on, proved
from gradorder.scores.graph import SquaredNorms, UnprovenError, Walk
from gradorder.scores.graph.forms import row_squares
from gradorder.scores.graph.operations import LEAF, Node
from gradorder.scores.reference import trainable_parameters
from gradorder.scores.wrapped import has_flat_parameters, is_sharded, unwrapped

Gradients = tuple[torch.Tensor | None, ...]
"""At the outputs of an operation."""


@contextmanager
def observe_gradient_norms(model: nn.Module, *, batch_gradient: bool = False) -> Iterator["SeenGradients"]:
    """Read exact per-example gradient norms from the training steps inside this context.

    Args:
        model: in training.
        batch_gradient: also measure the norm of the batch's own gradient, for `NoiseScale`.

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
    with ExitStack() as stack:
        _refuse_batch_statistics(unwrapped(model), stack)
        yield SeenGradients(model, stack, batch_gradient=batch_gradient)


class SeenGradients:
    """What `observe_gradient_norms` gives: tell it the losses, read the norms.

    Args:
        model: in training.
        stack: closed when the observation ends.
        batch_gradient: whether the batch's own gradient is measured, too.
    """

    def __init__(self, model: nn.Module, stack: ExitStack, *, batch_gradient: bool = False) -> None:
        model = unwrapped(model)
        if has_flat_parameters(model):
            raise ValueError(
                "model must keep its layers' parameters to be observed, got one in FullyShardedDataParallel: "
                "use fully_shard or DistributedDataParallel"
            )
        trainable_parameters(model)  # there must be one
        self._model = model
        self._hooks = stack.enter_context(ExitStack())
        self._stack = stack
        self._reason: str | None = None
        self._measures_batch = batch_gradient
        self._batch_squares: dict[Node, torch.Tensor] = {}
        self._norms: SquaredNorms | None = None
        self._weights: torch.Tensor | None = None
        self._arrivals = Arrivals()

    def losses(self, losses: torch.Tensor) -> torch.Tensor:
        """Tell the losses of the batch, one per example, before they are reduced; returns them unchanged.

        Raises:
            ValueError: it cannot be proved which numbers belong to which example.
        """
        if losses.ndim != 1 or len(losses) == 0 or not losses.requires_grad:
            raise ValueError(
                "losses must hold one number per example, with grad, shape (B,), "
                f'got shape {tuple(losses.shape)}: use reduction="none"'
            )
        counted = self._counted()
        try:
            found = proved(losses, counted)
        except UnprovenError as reason:
            raise ValueError(
                "it cannot be proved which numbers of this batch belong to which example, and perhaps the loss of one "
                f"depends on other examples: {reason}. gradient_norms goes a slower way where there is one"
            ) from reason
        self._hooks.close()  # of the batch before: they would keep its graph alive
        self._hooks = self._stack.enter_context(ExitStack())
        self._norms, self._weights, self._reason = SquaredNorms(found, len(losses)), None, None
        self._hooks.callback(losses.register_hook(partial(self._begin, self._norms)).remove)
        self._watch(found, self._norms, counted)
        return losses

    def _counted(self) -> set[int] | None:
        """The parameters that count in this step: layers may be frozen, unfrozen and replaced between two steps.

        Sharded parameters are replaced by whole ones while the model runs, so there every parameter counts.
        """
        return None if is_sharded(self._model) else {id(p) for p in self._model.parameters() if p.requires_grad}

    def _begin(self, norms: SquaredNorms, weights: torch.Tensor) -> None:
        """A backward pass has reached the losses."""
        norms.restart()
        self._arrivals.restart()
        self._batch_squares.clear()
        if norms is self._norms:
            self._weights, self._reason = weights.detach(), None

    def _watch(self, found: Walk, norms: SquaredNorms, counted: set[int] | None) -> None:
        self._arrivals = Arrivals()
        self._arrivals.watch(found, self._hooks, down_to_parameters=self._measures_batch)
        if self._measures_batch:
            for leaf in {node for node in found.shared_nodes if type(node).__name__ == LEAF}:
                if counted is None or id(leaf.variable) in counted:
                    self._hooks.callback(leaf.register_prehook(partial(self._measure, leaf)).remove)
        for junction in found.junctions:
            hook = junction.step.node.register_prehook(self._harmless(partial(met, norms, junction)))
            self._hooks.callback(hook.remove)
        for node in {shared.edge[0] for shared in found.shared.values() if shared.parameter is None}:
            hook = node.register_prehook(self._harmless(partial(passed_on, norms, node)))
            self._hooks.callback(hook.remove)

    def _measure(self, leaf: Node, gradients: Gradients) -> None:
        if gradients[0] is not None:
            self._batch_squares[leaf] = row_squares(widened(gradients[0].detach()).to_dense().unsqueeze(0))[0]

    @property
    def batch_gradient_norm(self) -> torch.Tensor:
        """||mean_i grad f_i|| of the batch whose backward pass has just run, with `batch_gradient=True`.

        Raises:
            RuntimeError: it was not asked for, or the backward pass has not run.
            ValueError: the examples have different weights in the loss, or something else than the losses sent
                gradients to the parameters.
        """
        if not self._measures_batch:
            raise RuntimeError(
                "the batch's gradient is measured with observe_gradient_norms(model, batch_gradient=True)"
            )
        norms = self.norms  # checks that the pass is complete
        self._arrivals.check(down_to_parameters=True)
        weights = self._weights
        assert weights is not None  # noqa: S101 - norms would have raised
        if bool((weights - weights[0]).abs().max() > 1e-5 * weights[0].abs()):
            raise ValueError("the examples must have equal weights in the loss for the gradient of their mean")
        squares = sum(self._batch_squares.values(), torch.zeros((), device=norms.device))
        return squares.sqrt() / (len(weights) * weights[0].abs())

    def _harmless(self, look: Callable[[Gradients], None]) -> Callable[[Gradients], None]:
        """What fails in it must not fail the training step half-way: it is said when the norms are asked for."""

        def looked(gradients: Gradients) -> None:
            try:
                look(gradients)
            except RuntimeError as reason:
                if is_out_of_memory(reason):
                    raise
                self._reason = str(reason)

        return looked

    @property
    def norms(self) -> torch.Tensor:
        """||grad f_i|| of the batch whose backward pass has just run, shape (B,).

        Each example's contribution to the gradients divided by |dL / df_i|; an example with weight zero has none.

        Raises:
            RuntimeError: the losses were not told, or their backward pass has not run to its end.
            ValueError: an example has no weight, or something else than the losses was differentiated with them.
        """
        norms, weights = self._norms, self._weights
        if norms is None:
            raise RuntimeError("norms are there after seen.losses(losses) and a backward pass: losses were not told")
        if self._reason is not None:
            raise ValueError(f"the gradients of single examples cannot be told apart in this batch: {self._reason}")
        if weights is None or not norms.is_complete:
            raise RuntimeError(
                "norms are there after the backward pass: call backward() on the reduced losses first, and read them "
                "when it has come to its end"
            )
        self._arrivals.check()
        if bool((weights == 0).any()):
            zero = (weights == 0).nonzero().flatten()
            raise ValueError(
                f"every example must have a weight in the loss, but {len(zero)} of {len(weights)} have none "
                f"(first: example {int(zero[0])}): its gradient cannot be seen"
            )
        with in_full_precision(weights.device):
            squares = norms.squares().to(weights.device)
        return squares.sqrt() / weights.abs().to(squares.dtype)


def _refuse_batch_statistics(model: nn.Module, stack: ExitStack) -> None:
    """BatchNorm that normalises by the batch raises at its first forward pass."""

    def refuse(module: nn.Module, _args: object) -> None:
        if module.training or getattr(module, "running_mean", None) is None:
            raise ValueError(
                f"{type(module).__name__} normalises by the batch here, so there is no per-example gradient: put "
                "it in eval mode (layer.eval() after model.train()), or use GroupNorm or LayerNorm"
            )

    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the common base has no public name
            stack.callback(module.register_forward_pre_hook(refuse).remove)
