"""Walk the graph from the losses of a batch to the parameters: which number belongs to which example?

The losses are one number per example. From there the walk goes against the direction of the forward pass. Each
operation says where the examples are in its inputs, given where they are in its outputs (`rules`). An input without a
place is shared by all examples: a parameter, or a tensor computed from parameters only. An operation with a shared
input is a junction. Parameters get their gradients through junctions and through nothing else. So if the walk ends
without an `UnprovenError`, the gradient of each loss is proved to be the sum of what the junctions contribute, for this
model, these losses and this batch. Nothing is taken over from an earlier call.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import get_gradient_edge

from gradorder.norms.operation import (
    LEAF,
    Edge,
    Node,
    Operation,
    Place,
    Shape,
    UnprovenError,
    is_complex,
    is_layout,
    kind_of,
    output_shape,
)
from gradorder.norms.rules import RULES


@dataclass(eq=False)
class Junction:
    """An operation with inputs that all examples share.

    Args:
        op: the operation.
        shared: the numbers of those inputs, each with its origin.
    """

    op: Operation
    shared: dict[int, Edge] = field(default_factory=dict)


@dataclass(eq=False)
class Shared:
    """A tensor that all examples share: a parameter, or a tensor computed from parameters only.

    Args:
        edge: its origin.
        parameters: the counted parameters from which it is computed.
        num_uses: the number of junctions that use it.
        parameter: the parameter itself, if only the operations in `layout` are in between.
        layout: from the tensor to the parameter.
    """

    edge: Edge
    parameters: list[torch.Tensor]
    num_uses: int = 0
    parameter: torch.Tensor | None = None
    layout: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Walk:
    """The result of walking one graph."""

    root: Node
    operations: dict[Node, Operation]
    junctions: list[Junction]
    shared: dict[Edge, Shared]
    shared_nodes: set[Node]
    """Nodes computed from parameters only, and the leaves of the parameters."""


def walk(losses: torch.Tensor, counted: set[int] | None) -> Walk:
    """Walk the graph of these losses, one per example.

    Args:
        losses: shape (B,).
        counted: the ids of the parameters that count; None: every `nn.Parameter`.

    Raises:
        UnprovenError: the graph does not prove which numbers belong to which example.
    """
    if not losses.requires_grad:
        return Walk(None, {}, [], {}, set())
    found = _walk_of_one_example(losses, counted) if len(losses) == 1 else _walk_of_batch(losses, counted)
    if any(has_hooks(parameter) for shared in found.shared.values() for parameter in shared.parameters):
        raise UnprovenError(
            "a parameter has a hook (register_hook), and its effect on one example's gradient is not known"
        )
    return found


def has_hooks(parameter: torch.Tensor) -> bool:
    """True if a hook may change the gradient of a parameter (`register_hook`); only plain autograd runs such hooks.

    Hooks that run after a gradient was added to `.grad`, as in distributed training, change no gradient.
    """
    return bool(parameter._backward_hooks)  # noqa: SLF001 - no public way


def _walk_of_batch(losses: torch.Tensor, counted: set[int] | None) -> Walk:
    root = losses.grad_fn
    if root is None:
        raise UnprovenError("the losses are a leaf of the graph")
    operations = _operations(losses, _leading_to(root, counted) if counted else None)
    shared: dict[Edge, Shared] = {}
    junctions = []
    seen: set[Node] = set()
    for op, inputs in operations.values():
        junction = Junction(op)
        for number, (edge, place) in enumerate(zip(op.edges, inputs, strict=True)):
            if edge[0] is None or place is not None:
                continue
            found = shared.get(edge) or _shared(edge, len(losses), counted, seen)
            if found.parameters:
                shared[edge] = found
                found.num_uses += 1
                _check_gradient_rule(op, number)
                junction.shared[number] = edge
        if junction.shared:
            junctions.append(junction)
    for node in seen:
        if node in operations:
            raise UnprovenError(f"{kind_of(node)}: all examples use its output, and so does one: examples are mixed")
    return Walk(root, {node: op for node, (op, _) in operations.items()}, junctions, shared, seen)


def _check_gradient_rule(op: Operation, number: int) -> None:
    rule = RULES[op.kind]
    if rule.gradients is None:
        raise op.unproven(f"all examples share its input number {number}, and there is no rule for its gradients")
    if is_complex(*op.edges[number]) or is_complex(op.node, 0):
        raise op.unproven("its rule is for real numbers")


def _walk_of_one_example(losses: torch.Tensor, counted: set[int] | None) -> Walk:
    """In a batch of one everything belongs to the one example, and each leaf is a junction of its own."""
    operations: dict[Node, Operation] = {}
    root = get_gradient_edge(losses).node  # a leaf, if the loss is a parameter itself
    stack: list[Node] = [root]
    while stack:
        node = stack.pop()
        if node is not None and node not in operations:
            operations[node] = Operation(node, [Place(1)] * len(_unknown(node)))
            stack.extend(child for child, _ in node.next_functions)
    leaves = {node: op for node, op in operations.items() if type(node).__name__ == LEAF}
    counting = {node: op for node, op in leaves.items() if _counts(node.variable, counted)}
    junctions = [Junction(op, {0: (node, 0)}) for node, op in counting.items()]
    shared = {(node, 0): Shared((node, 0), [node.variable], 1, node.variable) for node in counting}
    return Walk(root, operations, junctions, shared, set(leaves))


def _leading_to(root: Node, counted: set[int]) -> set[Node]:
    """The operations that have a counted parameter behind them, or an unknown operation, which may hide one.

    Others, such as those of another network that computed the batch, send no gradient to a counted parameter.
    """
    users: dict[Node, list[Node]] = {root: []}
    stack, leading = [root], []
    while stack:
        node = stack.pop()
        is_leaf = type(node).__name__ == LEAF
        if _counts(node.variable, counted) if is_leaf else kind_of(node) not in RULES:
            leading.append(node)
        for child, _ in node.next_functions:
            if child is not None:
                if child not in users:
                    users[child] = []
                    stack.append(child)
                users[child].append(node)
    found = set(leading)
    while leading:
        new = [user for user in users[leading.pop()] if user not in found]
        found.update(new)
        leading.extend(new)
    return found


def _operations(losses: torch.Tensor, leading: set[Node] | None) -> dict[Node, tuple[Operation, list[Place | None]]]:
    """Every operation on tensors of single examples, with the places in its inputs; None: skip no operation."""
    root = losses.grad_fn
    places: dict[Node, list[Place | None]] = {root: _unknown(root)}
    places[root][losses.output_nr] = Place(len(losses))
    # An operation comes after those whose results it uses, and torch numbers them as they are made.
    waiting = [(-root._sequence_nr(), 0, root)]  # type: ignore[union-attr] # noqa: SLF001 - no public way
    done: dict[Node, tuple[Operation, list[Place | None]]] = {}
    while waiting:
        node = heapq.heappop(waiting)[2]
        op = Operation(node, places[node])
        inputs = _input_places(op)
        done[node] = (op, inputs)
        for (child, number), place in zip(op.edges, inputs, strict=True):
            if child is None or place is None or (leading is not None and child not in leading):
                continue
            if type(child).__name__ == LEAF:
                _check_leaf(child)
                continue
            if child in done:
                raise UnprovenError(f"{kind_of(child)}: the graph was not made in one forward pass")
            if child not in places:
                places[child] = _unknown(child)
                heapq.heappush(waiting, (-child._sequence_nr(), len(places), child))  # noqa: SLF001
            known = places[child][number]
            places[child][number] = place if known is None else known.merged(place)
    return done


def _input_places(op: Operation) -> list[Place | None]:
    rule = RULES.get(op.kind)
    if rule is None:
        raise UnprovenError(f"there is no rule for the operation {type(op.node).__name__}")
    try:
        return rule.places(op)
    except (AttributeError, IndexError) as error:  # another version of torch may save other values
        raise op.unproven(f"it is not as expected ({error})") from error


def _unknown(node: Node) -> list[Place | None]:
    return [None] * len(node._input_metadata)  # noqa: SLF001 - no public way


def _check_leaf(leaf: Node) -> None:
    if isinstance(leaf.variable, nn.Parameter):
        raise UnprovenError(
            f"a parameter of shape {tuple(leaf.variable.shape)} is used as if it had a row for every example"
        )


def _shared(edge: Edge, size: int, counted: set[int] | None, seen: set[Node]) -> Shared:
    """The tensor behind a shared input; the nodes behind it are added to `seen`."""
    leaves = list(_leaves(edge[0], size, seen))
    found = Shared(edge, [leaf for leaf in leaves if _counts(leaf, counted)])
    node = edge[0]
    while is_layout(node):
        found.layout.append(node)
        node = node.next_functions[0][0]
    if type(node).__name__ == LEAF and found.parameters:
        found.parameter = found.parameters[0]
    return found


def _counts(leaf: torch.Tensor, counted: set[int] | None) -> bool:
    return isinstance(leaf, nn.Parameter) if counted is None else id(leaf) in counted


def _leaves(node: Node, size: int, seen: set[Node]) -> Iterator[torch.Tensor]:
    """The leaves behind a node, each once."""
    own: set[Node] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node is None or node in own:
            continue
        own.add(node)
        if type(node).__name__ == LEAF:
            yield node.variable
            continue
        _check_no_batch(node, size)
        if isinstance(node, BackwardCFunction) and kind_of(node) != "BackwardHookFunction":
            raise UnprovenError(f"{kind_of(node)}: a shared tensor is computed by it, and it is in Python")
        stack.extend(child for child, _ in node.next_functions)
    seen |= own


_OF_DATA = {"Addmm": "mat1", "Mm": "self", "Bmm": "self", "Convolution": "input", "Embedding": "indices"}
"""Operations by which data enters a graph, and the name under which they save it."""


def _check_no_batch(node: Node, size: int) -> None:
    """A shared tensor is computed from parameters only: a statistic of the batch would couple the examples."""
    child = node.next_functions[0][0] if kind_of(node) in _VIEWS else node
    name = None if child is None else _OF_DATA.get(kind_of(child))
    if name is None:
        return
    is_data = kind_of(child) == "Embedding" or child.next_functions[kind_of(child) == "Addmm"][0] is None
    data = getattr(child, f"_saved_{name}") if is_data else None
    if data is None or data.ndim == 1 or _is_by_distance(data):
        return
    shapes: list[Shape] = [data.shape[:1]]
    if child is not node:  # a linear layer on (B, T, d) is a product of (B T, d) and a view
        shapes.append(output_shape(node, 0)[:-1])
    if any(size in shape for shape in shapes):
        raise UnprovenError(
            f"{kind_of(child)}: all examples use a tensor that is computed from the batch: they are mixed"
        )


_VIEWS = frozenset(["View", "UnsafeView", "ReshapeAlias"])


def _is_by_distance(data: torch.Tensor) -> bool:
    """True if these are numbers of pairs of positions by their distance: a batch may have as many examples."""
    is_matrix = data.ndim == 2 and not data.is_floating_point()  # noqa: PLR2004 - a matrix
    return is_matrix and torch.equal(data[1:, 1:], data[:-1, :-1])
