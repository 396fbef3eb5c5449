"""From the gradients at the junctions to the squared norm of each example's gradient."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.func import vmap

from gradorder.errors import is_out_of_memory
from gradorder.precision import widened
from gradorder.scores.batching import slow_batching_allowed
from gradorder.scores.graph.forms import Dense, Form, OuterSum, sum_squares
from gradorder.scores.graph.junctions import junction_rule
from gradorder.scores.graph.operations import LEAF, Node, kind_of, output_shape, permutation
from gradorder.scores.graph.place import summed_to
from gradorder.scores.graph.walk import Edge, Junction, Shared, Walk

try:
    from torch.utils.checkpoint import GraphExecGroup
except ImportError:  # before torch 2.9
    GraphExecGroup = None  # type: ignore[assignment,misc]

_EVERYTHING = "MkldnnRnnLayer"
"""The operation whose rule looks at the gradients of all its outputs."""


class SquaredNorms:
    """The squared gradient norms of one batch, added up as the backward pass goes.

    A parameter that is used once adds the squares of its gradients as they come; the uses of one that is used several
    times wait for each other, as the norm of a sum is asked for.
    """

    def __init__(self, walk: Walk, num_examples: int) -> None:
        self._walk = walk
        self._num_examples = num_examples
        self._uses: Counter[int] = Counter()
        for each in walk.shared.values():
            for parameter in each.parameters:
                self._uses[id(parameter)] += each.num_uses if each.parameter is not None else 2
        self.restart()

    def restart(self) -> None:
        """Forget what an earlier backward pass through the same graph has added."""
        self._total: torch.Tensor | None = None
        self._waiting: dict[int, list[Form]] = {}
        self._derived: dict[Node, dict[int, list[Form]]] = {}
        self._missing = set(map(id, self._walk.junctions))
        self._apart = None if GraphExecGroup is None else GraphExecGroup()

    @property
    def is_complete(self) -> bool:
        """Whether the gradients of all junctions have come."""
        return not self._missing

    def meet(self, junction: Junction, gradients: Sequence[torch.Tensor | None]) -> None:
        """The gradients at the outputs of a junction have come."""
        self._missing.discard(id(junction))
        step = junction.step
        step.notes.clear()
        wide = tuple(None if gradient is None else widened(gradient.detach()) for gradient in gradients)
        used = (
            wide if step.kind == _EVERYTHING else next((g for g, p in zip(wide, step.places, strict=True) if p), None)
        )
        if used is None or (isinstance(used, tuple) and not any(g is not None for g in used)):
            return  # no loss of any weight depends on it
        with torch.no_grad(), self._own_unpacking():
            for number, edge in junction.shared.items():
                try:
                    form = junction_rule(step, number)(step, used, number)
                except AttributeError as error:  # another torch may keep other things
                    raise step.unproven(f"it is not as expected ({error})") from error
                self._add(self._walk.shared[edge], form)
        step.notes.clear()

    @contextmanager
    def _own_unpacking(self) -> Iterator[None]:
        """Checkpointed activations are handed out once in a backward pass, and autograd needs them too: ask apart."""
        if self._apart is None or GraphExecGroup._get_current_group() is not None:  # noqa: SLF001 - no public way
            yield
        else:
            with self._apart:
                yield

    def _add(self, shared: Shared, form: Form) -> None:
        if shared.parameter is None:
            node, number = shared.edge
            self._derived.setdefault(node, {}).setdefault(number, []).append(form)
        elif self._uses[id(shared.parameter)] == 1:
            self._add_squares(form.squares())
        else:
            self._wait(shared.parameter, _in_layout_of_parameter(form, shared.layout))

    def _wait(self, parameter: torch.Tensor, form: Form) -> None:
        self._waiting.setdefault(id(parameter), []).append(form)

    def _add_squares(self, squares: torch.Tensor) -> None:
        self._total = squares if self._total is None else self._total + squares

    def pass_on(self, node: Node) -> None:
        """Take the gradients at a shared tensor on to the parameters that it was made of."""
        gradients = self._derived.pop(node, None)
        if gradients is None:
            return
        dense = {number: _summed(forms, output_shape(node, number)) for number, forms in gradients.items()}
        for parameter, rows in _through(node, dense):
            if id(parameter) in self._uses:
                self._wait(parameter, Dense(rows))

    def squares(self) -> torch.Tensor:
        """The sums over all parameters, shape (B,)."""
        with torch.no_grad():
            for node in list(self._derived):
                self.pass_on(node)
            for forms in self._waiting.values():
                self._add_squares(sum_squares(forms))
        self._waiting.clear()
        return torch.zeros(self._num_examples) if self._total is None else self._total


def _in_layout_of_parameter(form: Form, layout: Sequence[Node]) -> Form:
    """The gradients of a parameter, from those of the same numbers in another layout."""
    for node in layout:
        child, number = node.next_functions[0]
        shape = output_shape(child, number)
        if kind_of(node) in {"T", "Transpose", "Permute"}:
            form = _permuted_back(form, permutation(node, len(shape)))
        elif tuple(shape) != tuple(output_shape(node, 0)):
            form = Dense(form.dense().reshape(-1, *shape))
    return form


def _permuted_back(form: Form, dims: list[int]) -> Form:
    if isinstance(form, OuterSum) and dims == [1, 0]:
        return form.transposed()
    back = [dims.index(dim) + 1 for dim in range(len(dims))]
    return Dense(form.dense().permute(0, *back))


def _summed(forms: Sequence[Form], shape: Sequence[int]) -> torch.Tensor:
    total = forms[0].dense()
    for form in forms[1:]:
        total = total + form.dense()
    return total.reshape(len(total), *shape)


def _through(node: Node, gradients: dict[int, torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each example's gradients at some outputs of an operation, on through all operations before it, to the leaves."""
    arrived: dict[Edge, torch.Tensor] = {(node, number): rows for number, rows in gradients.items()}
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    for each in _in_order(node):
        rows = _at_outputs(each, arrived)
        if rows is None:
            continue
        if type(each).__name__ == LEAF:
            found.append((each.variable, rows[0]))
            continue
        for edge, result in zip(each.next_functions, _one_by_one(each, rows), strict=True):
            if edge[0] is not None and result is not None:
                arrived[edge] = arrived[edge] + result if edge in arrived else result
    return found


def _in_order(root: Node) -> list[Node]:
    """A node and all before it, each after those that use it."""
    order: list[Node] = []
    seen: set[Node] = set()

    def visit(node: Node) -> None:
        if node is None or node in seen:
            return
        seen.add(node)
        for child, _ in node.next_functions:
            visit(child)
        order.append(node)

    visit(root)
    return order[::-1]


def _at_outputs(node: Node, arrived: dict[Edge, torch.Tensor]) -> list[torch.Tensor] | None:
    """The gradients at all outputs of a node, zero where none has come; None if none has come at all."""
    numbers = range(len(node._input_metadata))  # noqa: SLF001 - no public way
    known = [arrived.get((node, number)) for number in numbers]
    first = next((rows for rows in known if rows is not None), None)
    if first is None:
        return None
    return [
        first.new_zeros(len(first), *output_shape(node, number)) if rows is None else rows
        for number, rows in enumerate(known)
    ]


def _one_by_one(node: Node, rows: Sequence[torch.Tensor]) -> Sequence[torch.Tensor | None]:
    """A node's backward step for every example: vectorised, or where torch cannot do that, one after the other."""
    types = [metadata.dtype for metadata in node._input_metadata]  # noqa: SLF001 - no public way
    rows = [each.to(dtype) for each, dtype in zip(rows, types, strict=True)]
    inputs = [child for child, _ in node.next_functions]

    def backward(*gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = node(*gradients)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(result for result, child in zip(results, inputs, strict=True) if child is not None)

    try:
        with slow_batching_allowed():
            results = vmap(backward)(*rows)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        each = [backward(*(rows_of[i] for rows_of in rows)) for i in range(len(rows[0]))]
        results = tuple(torch.stack(column) for column in zip(*each, strict=True))
    following = iter(results)
    return [
        None if child is None else summed_to(widened(next(following).to_dense()), output_shape(child, number))
        for child, number in node.next_functions
    ]
