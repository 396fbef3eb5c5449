"""Exact per-example gradient norms out of the user's own training step, without an extra pass.

In the backward pass of L = sum_i w_i f_i (w_i = 1/B for a mean, times any loss scaling) the gradient at a number that
only f_i depends on is w_i times that of f_i. So the squared norms are summed as in `squared_norms` and divided by
w_i^2. The weights w_i are the gradients that reach the losses.

Nothing is added to the graph, so the gradients that the optimizer uses stay the same to the bit. For every batch the
graph proves which numbers belong to which example (`walk`). `_OtherTerms` checks that every gradient in the pass comes
from the losses. A batch that cannot be proved is refused, and the error says why.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from gradorder.checks import widened
from gradorder.errors import is_out_of_memory
from gradorder.norms.factored import row_squares
from gradorder.norms.model_state import check_countable, has_flat_parameters, is_sharded, unwrapped
from gradorder.norms.operation import LEAF, Edge, Node, UnprovenError
from gradorder.norms.squared_norms import Gradients, SquaredNorms
from gradorder.norms.walk import Walk, walk


@contextmanager
def observe_gradient_norms(model: nn.Module, *, batch_gradient: bool = False) -> Iterator["Observation"]:
    """Read exact per-example gradient norms from the training steps inside this context.

    Args:
        model: the model that is trained.
        batch_gradient: also measure the norm of the gradient of the whole batch, for `NoiseScale`.

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

    Any reduction, weighting, loss scaling or gradient accumulation may follow `seen.losses`. The model stays in
    training mode. BatchNorm with batch statistics has no per-example gradient and raises in its first forward pass; put
    its layers into eval mode.

    With `DistributedDataParallel` and `fully_shard` each process reads the norms of its own part of the batch.
    """
    with ExitStack() as stack:
        _refuse_batch_statistics(unwrapped(model), stack)
        observation = Observation(model, batch_gradient=batch_gradient)
        stack.callback(observation.close)
        yield observation


class Observation:
    """The object that `observe_gradient_norms` yields: pass it the losses, then read the norms.

    Args:
        model: the model that is trained.
        batch_gradient: also measure the norm of the gradient of the whole batch.
    """

    def __init__(self, model: nn.Module, *, batch_gradient: bool = False) -> None:
        model = unwrapped(model)
        if has_flat_parameters(model):
            raise ValueError(
                "model must keep the parameters of its layers to be observed, got one in FullyShardedDataParallel: "
                "use fully_shard or DistributedDataParallel"
            )
        check_countable([parameter for parameter in model.parameters() if parameter.requires_grad])
        self._model = model
        self._hooks = ExitStack()
        self._failure: str | None = None
        self._measures_batch = batch_gradient
        self._batch_squares: dict[Node, torch.Tensor] = {}
        self._norms: SquaredNorms | None = None
        self._weights: torch.Tensor | None = None
        self._other_terms = _OtherTerms()

    def close(self) -> None:
        """Remove all hooks."""
        self._hooks.close()

    def losses(self, losses: torch.Tensor) -> torch.Tensor:
        """Pass the losses of the batch, one per example, before they are reduced; returns them unchanged.

        Raises:
            ValueError: the graph does not prove which numbers belong to which example.
        """
        if losses.ndim != 1 or len(losses) == 0 or not losses.requires_grad:
            raise ValueError(
                "losses must hold one number per example, with grad, shape (B,), "
                f'got shape {tuple(losses.shape)}: use reduction="none"'
            )
        counted = self._counted()
        try:
            found = walk(losses, counted)
        except UnprovenError as reason:
            raise ValueError(
                "the graph does not prove which numbers of this batch belong to which example; perhaps the loss of one "
                f"depends on other examples: {reason}. gradient_norms has a slower way for some such models"
            ) from reason
        self._hooks.close()  # of the batch before: they would keep its graph alive
        self._norms, self._weights, self._failure = SquaredNorms(found, len(losses)), None, None
        self._hooks.callback(losses.register_hook(partial(self._begin, self._norms)).remove)
        self._watch(found, self._norms, counted)
        return losses

    def _counted(self) -> set[int] | None:
        """The parameters that count in this step: users freeze, unfreeze and replace layers between steps.

        FSDP replaces sharded parameters by whole ones while the model runs, so there every parameter counts.
        """
        return None if is_sharded(self._model) else {id(p) for p in self._model.parameters() if p.requires_grad}

    def _begin(self, norms: SquaredNorms, weights: torch.Tensor) -> None:
        """A backward pass has reached the losses."""
        norms.restart()
        self._other_terms.restart()
        self._batch_squares.clear()
        if norms is self._norms:
            self._weights, self._failure = weights.detach(), None

    def _watch(self, found: Walk, norms: SquaredNorms, counted: set[int] | None) -> None:
        self._other_terms = _OtherTerms(norms)
        self._other_terms.watch(found, self._hooks, to_parameters=self._measures_batch)
        if self._measures_batch:
            for leaf in {node for node in found.shared_nodes if type(node).__name__ == LEAF}:
                if counted is None or id(leaf.variable) in counted:
                    self._hooks.callback(leaf.register_prehook(partial(self._measure, leaf)).remove)
        for junction in found.junctions:
            hook = junction.op.node.register_prehook(self._without_failing(partial(norms.add, junction)))
            self._hooks.callback(hook.remove)
        for node in {shared.edge[0] for shared in found.shared.values() if shared.parameter is None}:
            hook = node.register_prehook(self._without_failing(partial(_propagate, norms, node)))
            self._hooks.callback(hook.remove)

    def _measure(self, leaf: Node, gradients: Gradients) -> None:
        if gradients[0] is not None and not (self._norms and self._norms.is_propagating):
            self._batch_squares[leaf] = row_squares(widened(gradients[0].detach()).to_dense().unsqueeze(0))[0]

    def _without_failing(self, hook: Callable[[Gradients], None]) -> Callable[[Gradients], None]:
        """An error in a hook must not stop the training step half-way: it is raised when the norms are read."""

        def called(gradients: Gradients) -> None:
            try:
                hook(gradients)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                self._failure = str(error)

        return called

    @property
    def norms(self) -> torch.Tensor:
        """The gradient norms of the batch whose backward pass has just run, shape (B,).

        Each example's contribution to the gradients is divided by |dL / df_i|.

        Raises:
            RuntimeError: the losses were not passed, or their backward pass has not finished.
            ValueError: an example has weight zero, or another term than the losses was differentiated with them.
        """
        norms, weights = self._norms, self._weights
        if norms is None:
            raise RuntimeError("norms are there after seen.losses(losses) and a backward pass: losses were not passed")
        if self._failure is not None:
            raise ValueError(f"the gradients of single examples cannot be separated in this batch: {self._failure}")
        if weights is None or not norms.is_complete:
            raise RuntimeError(
                "norms are there after the backward pass: call backward() on the reduced losses, and read the norms "
                "when it has finished"
            )
        self._other_terms.check()
        if bool((weights == 0).any()):
            zero = (weights == 0).nonzero().flatten()
            raise ValueError(
                f"every example must have a weight in the loss, but {len(zero)} of {len(weights)} have none "
                f"(first: example {int(zero[0])}), so their gradients cannot be observed"
            )
        squares = norms.squares().to(weights.device)
        return squares.sqrt() / weights.abs().to(squares.dtype)

    @property
    def batch_gradient_norm(self) -> torch.Tensor:
        """The norm of the mean of all gradients of the batch, with `batch_gradient=True`.

        Raises:
            RuntimeError: it was not requested, or the backward pass has not run.
            ValueError: the examples have different weights in the loss, or another term than the losses sent gradients
                to the parameters.
        """
        if not self._measures_batch:
            raise RuntimeError(
                "the gradient of the batch is measured with observe_gradient_norms(model, batch_gradient=True)"
            )
        norms = self.norms  # checks that the pass is complete
        self._other_terms.check(to_parameters=True)
        weights = self._weights
        assert weights is not None  # noqa: S101 - norms would have raised
        if bool((weights - weights[0]).abs().max() > 1e-5 * weights[0].abs()):
            raise ValueError("the examples must have equal weights in the loss for the gradient of their mean")
        squares = sum(self._batch_squares.values(), torch.zeros((), device=norms.device))
        return squares.sqrt() / (len(weights) * weights[0].abs())


def _propagate(norms: SquaredNorms, node: Node, _gradients: Gradients) -> None:
    norms.propagate(node)


class _OtherTerms:
    """Notices terms of the backward pass other than the losses.

    A penalty on the logits, or an auxiliary loss of experts, sends gradients through the same operations, and they
    would be counted as those of the examples. So the gradient that reaches an operation is compared with the gradients
    that the operations between it and the losses have sent.
    """

    def __init__(self, norms: SquaredNorms | None = None) -> None:
        self._norms = norms
        self._sent: dict[Edge, list[torch.Tensor]] = {}
        self._reached: dict[Node, str] = {}
        """Operations that another term has reached."""
        self._found: Walk | None = None

    def watch(self, found: Walk, stack: ExitStack, *, to_parameters: bool = False) -> None:
        """Compare at every operation of a graph except the root, until `stack` is closed.

        Args:
            found: the graph.
            stack: removes the hooks.
            to_parameters: also compare at shared tensors and at the parameters.
        """
        self._found = found
        edges_of = {node: op.edges for node, op in found.operations.items()}
        if to_parameters:
            edges_of |= {node: node.next_functions for node in found.shared_nodes - found.operations.keys()}
        # A hook that runs after an operation gets the gradients on both sides: one hook is enough, and it also notices
        # hooks of the user that were registered later. One list of handles: the stack would make many objects of each.
        handles = []
        for node, edges in edges_of.items():
            watched = [edge if edge[0] in edges_of else None for edge in edges]
            handles.append(node.register_hook(partial(self._compare, node, watched)))
        stack.callback(_remove, handles)

    def restart(self) -> None:
        """Another backward pass through the same graph begins."""
        self._sent.clear()
        self._reached.clear()

    def check(self, *, to_parameters: bool = False) -> None:
        """Raise ValueError if another term has reached an operation on the examples, or on shared tensors."""
        known = () if self._found is None else self._found.operations
        for node, name in self._reached.items():
            if node in known or to_parameters:
                raise ValueError(
                    f"another term than the losses sends gradients through {name} in the same backward pass. They "
                    "cannot be separated from those of the examples. Add the term to the losses, or run its backward "
                    "pass separately"
                )

    def _compare(self, node: Node, edges: list[Edge | None], sent: Gradients, got: Gradients) -> None:
        if self._norms is not None and self._norms.is_propagating:
            return
        root = self._found and self._found.root
        for number, gradient in enumerate(got):
            parts = self._sent.pop((node, number), ())
            if gradient is None or node is root or (len(parts) == 1 and parts[0] is gradient):
                continue
            if not parts or not _is_sum(gradient, parts):
                self._reached[node] = type(node).__name__
        for edge, gradient in zip(edges, sent, strict=True):
            if edge is not None and gradient is not None:
                self._sent.setdefault(edge, []).append(gradient)


def _remove(handles: list[RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()


def _is_sum(total: torch.Tensor, parts: Sequence[torch.Tensor]) -> bool:
    """True if nothing else was added; gradients of broadcast tensors are summed on their way.

    The order of the sum of n parts is not known. Each order rounds n - 1 times, by half an eps of at most the sum of
    absolute values, so two orders are up to n - 1 eps of that apart.
    """
    with torch.no_grad():
        total = total.to_dense()
        dense = [part.to_dense().to(total.dtype).sum_to_size(total.shape) for part in parts]
        off = _sum(dense).sub_(total).abs_()
        if not bool(off.sum()):  # torch.equal takes several times as long
            return True
        allowed = (len(parts) - 1) * torch.finfo(total.dtype).eps * _sum([part.abs() for part in dense])
        return bool(((off <= allowed) | ~_sum(dense).isfinite()).all())


def _sum(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum from the first to the last, in new memory."""
    total = parts[0] + parts[1] if len(parts) > 1 else parts[0].clone()
    for part in parts[2:]:
        total += part
    return total


def _refuse_batch_statistics(model: nn.Module, stack: ExitStack) -> None:
    """BatchNorm with batch statistics raises in its first forward pass."""

    def refuse(module: nn.Module, _args: object) -> None:
        if module.training or getattr(module, "running_mean", None) is None:
            raise ValueError(
                f"{type(module).__name__} normalizes by the statistics of this batch, so there is no per-example "
                "gradient. Put it into eval mode (layer.eval() after model.train()), or use GroupNorm or LayerNorm"
            )

    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the common base has no public name
            stack.callback(module.register_forward_pre_hook(refuse).remove)
