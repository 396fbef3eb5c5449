"""One backward pass through the activations: squared norms of per-example gradients, without the gradients.

The pass stops at the junctions that `walk` found. The gradient at a junction's output, with the tensors that autograd
saved there, gives the per-example gradients of its shared inputs in factored form (`rules`, `factored`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import CheckpointError

from gradorder.checks import widened
from gradorder.errors import is_out_of_memory
from gradorder.norms.factored import Dense, LastProducts, OuterSum, PerExample, sum_squares, written_sum
from gradorder.norms.model_state import slow_vmap_allowed
from gradorder.norms.operation import LEAF, Node, Operation, UnprovenError, kind_of, output_shape
from gradorder.norms.rules import RULES
from gradorder.norms.rules.dimensions import permutation
from gradorder.norms.walk import Junction, Shared, Walk

try:
    from torch.utils.checkpoint import GraphExecGroup
except ImportError:  # before torch 2.9
    GraphExecGroup = None  # type: ignore[assignment,misc]

Gradients = tuple[torch.Tensor | None, ...]
"""The gradients at the outputs of an operation."""


def squared_norms(losses: torch.Tensor, found: Walk) -> torch.Tensor:
    """The squared gradient norm of each loss, shape (B,).

    Raises:
        UnprovenError: torch before 2.9 returns a checkpointed activation to autograd or to us, not to both.
    """
    norms = SquaredNorms(found, len(losses))
    if found.junctions:
        last = _last_junctions(found)
        edges = [GradientEdge(j.op.node, n) for j in last for n, place in enumerate(j.op.places) if place is not None]
        with ExitStack() as stack:
            for junction in found.junctions:
                if junction not in last:
                    hook = junction.op.node.register_prehook(partial(norms.add, junction))
                    stack.callback(hook.remove)
            try:
                gradients = iter(torch.autograd.grad(losses.sum(), edges, allow_unused=True))
            except CheckpointError as error:
                if "already unpacked once" not in str(error):
                    raise
                raise UnprovenError("this version of torch returns checkpointed activations only once") from error
        for junction in last:
            norms.add(junction, tuple(None if place is None else next(gradients) for place in junction.op.places))
    return norms.squares().to(losses.device)


def _last_junctions(found: Walk) -> list[Junction]:
    """The junctions with no other junction behind them: the backward pass ends there and returns their gradients."""
    nodes = {junction.op.node for junction in found.junctions}
    leads_on: set[object] = set()
    for node, op in reversed(found.operations.items()):
        if any(child in leads_on or child in nodes for child, _ in op.edges if child in found.operations):
            leads_on.add(node)
    return [junction for junction in found.junctions if junction.op.node not in leads_on]


class SquaredNorms:
    """The squared gradient norms of one batch, summed while the backward pass runs.

    A parameter that is used once adds the squares of its gradients at once. The uses of a parameter that is used
    several times are collected first, because the norm of their sum is needed.
    """

    def __init__(self, walk: Walk, num_examples: int) -> None:
        self._walk = walk
        self._num_examples = num_examples
        self._uses: Counter[int] = Counter()
        for each in walk.shared.values():
            for parameter in each.parameters:
                self._uses[id(parameter)] += each.num_uses if each.parameter is not None else 2
        self.is_propagating = False
        """True while autograd runs for us, inside a backward pass that is observed: hooks ignore these gradients."""
        self.restart()

    def restart(self) -> None:
        """Forget an earlier backward pass through the same graph."""
        self._total: torch.Tensor | None = None
        self._collected: dict[int, list[PerExample]] = {}
        self._derived: dict[Node, dict[int, list[PerExample]]] = {}
        self._last = LastProducts()
        self._missing = set(map(id, self._walk.junctions))
        self._own_group = None if GraphExecGroup is None else GraphExecGroup()

    @property
    def is_complete(self) -> bool:
        """True if the backward pass has reached all junctions."""
        return not self._missing

    def add(self, junction: Junction, gradients: Gradients) -> None:
        """Add a junction, with the gradients at its outputs."""
        self._missing.discard(id(junction))
        op = junction.op
        dense = tuple(None if each is None else widened(each.detach().to_dense()) for each in gradients)
        if all(gradient is None for gradient in dense):
            return  # no loss depends on it
        op.notes.clear()
        with torch.no_grad(), in_full_precision(op.device), self._own_unpacking():
            for number, edge in junction.shared.items():
                self._add_input(self._walk.shared[edge], _gradients_of_input(op, dense, number))
        op.notes.clear()

    @contextmanager
    def _own_unpacking(self) -> Iterator[None]:
        """Checkpointed activations are returned once per group, and autograd needs them too: use a group of our own."""
        if self._own_group is None or GraphExecGroup._get_current_group() is not None:  # noqa: SLF001 - no public way
            yield
        else:
            with self._own_group:
                yield

    def _add_input(self, shared: Shared, form: PerExample) -> None:
        if shared.parameter is None:
            node, number = shared.edge
            self._derived.setdefault(node, {}).setdefault(number, []).append(form)
        elif self._uses[id(shared.parameter)] == 1:
            self._add_squares(form.squares(self._last) if isinstance(form, OuterSum) else form.squares())
        else:
            self._collect(shared.parameter, _in_layout_of_parameter(form, shared.layout))

    def _collect(self, parameter: torch.Tensor, form: PerExample) -> None:
        self._collected.setdefault(id(parameter), []).append(form)

    def _add_squares(self, squares: torch.Tensor) -> None:
        self._total = squares if self._total is None else self._total + squares

    def propagate(self, node: Node) -> None:
        """Propagate the gradients at a tensor computed from parameters to those parameters."""
        gradients = None if self.is_propagating else self._derived.pop(node, None)
        if gradients is None:
            return
        behind = {id(p): p for each in self._walk.shared.values() if each.edge[0] is node for p in each.parameters}
        self.is_propagating = True
        try:
            with torch.no_grad(), in_full_precision(self._walk.junctions[0].op.device):
                rows = {
                    number: (total := written_sum(forms)).reshape(len(total), *output_shape(node, number))
                    for number, forms in gradients.items()
                }
                for parameter, each in _at_parameters(node, rows, list(behind.values())):
                    self._collect(parameter, Dense(each))
        finally:
            self.is_propagating = False

    def squares(self) -> torch.Tensor:
        """The sums over all parameters, shape (B,)."""
        for node in list(self._derived):
            self.propagate(node)
        for forms in self._collected.values():
            with torch.no_grad(), in_full_precision(self._walk.junctions[0].op.device):
                self._add_squares(sum_squares(forms))
        self._collected.clear()
        self._last = LastProducts()  # frees an activation
        return torch.zeros(self._num_examples) if self._total is None else self._total


def _gradients_of_input(op: Operation, gradients: Gradients, number: int) -> PerExample:
    if op.kind == LEAF:  # in a batch of one, the gradient of a parameter is that of the example
        return Dense(next(each for each in gradients if each is not None).unsqueeze(0))
    rule = RULES[op.kind]
    assert rule.gradients is not None  # noqa: S101 - the walk has checked it
    used = next((g for g, p in zip(gradients, op.places, strict=True) if p is not None and g is not None), None)
    try:
        return rule.gradients(op, gradients if rule.needs_all_outputs else used, number)
    except AttributeError as error:  # another version of torch may save other values
        raise op.unproven(f"it is not as expected ({error})") from error


@contextmanager
def in_full_precision(device: torch.device) -> Iterator[None]:
    """Norms are not computed in half precision, even under autocast."""
    if not torch.is_autocast_enabled(device.type):
        yield
    else:
        with torch.autocast(device.type, enabled=False):
            yield


def _in_layout_of_parameter(form: PerExample, layout: Sequence[Node]) -> PerExample:
    """The gradients of a parameter, from those of the same numbers in another layout."""
    for node in layout:
        child, number = node.next_functions[0]
        shape = output_shape(child, number)
        if kind_of(node) in {"T", "Transpose", "Permute"}:
            form = _permuted_back(form, permutation(node, len(shape)))
        elif tuple(shape) != tuple(output_shape(node, 0)):
            form = Dense(form.dense().reshape(-1, *shape))
    return form


def _permuted_back(form: PerExample, dims: list[int]) -> PerExample:
    if isinstance(form, OuterSum) and dims == [1, 0]:
        return form.transposed()
    back = [dims.index(dim) + 1 for dim in range(len(dims))]
    return Dense(form.dense().permute(0, *back))


def _at_parameters(
    node: Node, gradients: dict[int, torch.Tensor], parameters: Sequence[torch.Tensor]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Per-example gradients at the outputs of a node, propagated to the parameters behind it by autograd itself."""
    edges = [GradientEdge(node, number) for number in gradients]
    types = [node._input_metadata[number].dtype for number in gradients]  # noqa: SLF001 - no public way
    rows = [each.to(dtype) for each, dtype in zip(gradients.values(), types, strict=True)]
    backward = partial(torch.autograd.grad, edges, parameters, retain_graph=True, allow_unused=True)
    try:
        with slow_vmap_allowed():
            results: Sequence[torch.Tensor | None] = backward(rows, is_grads_batched=True)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        # torch cannot vectorize one of the operations: one example after the other.
        each = [backward([rows_of[i] for rows_of in rows]) for i in range(len(rows[0]))]
        columns = zip(*each, strict=True)
        results = [None if column[0] is None else torch.stack([g.to_dense() for g in column]) for column in columns]
    return [(p, widened(result)) for p, result in zip(parameters, results, strict=True) if result is not None]
