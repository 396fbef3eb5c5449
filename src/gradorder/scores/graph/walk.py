"""Follow the graph of a batch's losses down to the parameters: which number belongs to which example?

The losses are one number per example. Going from them against the direction of the forward pass, every operation says
where the examples are in its inputs, given where they are in its outputs (`operations`). An input in which they are
nowhere is shared by all of them: a parameter, or what was made of parameters alone. The edges that lead there are the
junctions (`junctions`); no gradient of a parameter comes from anywhere else. So when the walk ends without an
`UnprovenError`, each example's gradient is proved to be what the junctions add up to, for this model, this loss and
this batch: nothing is taken over from an earlier call.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import get_gradient_edge

from gradorder.scores.graph.junctions import junction_rule
from gradorder.scores.graph.layers import LayerStep
from gradorder.scores.graph.operations import LEAF, OPERATIONS, Node, Step, input_places, is_layout, kind_of
from gradorder.scores.graph.place import Place, UnprovenError

Edge = tuple[Node, int]
"""An output of an operation: its node, and which of its outputs."""


@dataclass(eq=False)
class Junction:
    """An operation with inputs that all examples share.

    Args:
        step: the operation.
        shared: the numbers of those inputs, and where each comes from.
    """

    step: Step
    shared: dict[int, Edge] = field(default_factory=dict)


@dataclass(eq=False)
class Shared:
    """Something that all examples share: an output of an operation on parameters alone, or a parameter.

    Args:
        edge: where it comes from.
        num_uses: how many junctions it meets.
        parameters: the counted ones that it was made of.
        parameter: the parameter that it is, in the layout that the operations `layout` give it, if it is one.
        layout: from it to the parameter.
    """

    edge: Edge
    parameters: list[torch.Tensor]
    num_uses: int = 0
    parameter: torch.Tensor | None = None
    layout: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Walk:
    """What was found out about one graph."""

    root: Node
    steps: dict[Node, Step]
    junctions: list[Junction]
    shared: dict[Edge, Shared]
    shared_nodes: set[Node]
    """What no example has for itself: operations on parameters alone, and the parameters' leaves."""
    leaves: dict[Node, Place]
    """Where the examples are in leaves that are no parameters, such as inputs that require grad."""


def walk(losses: torch.Tensor, counted: set[int] | None, layers: Mapping[Node, LayerStep] | None = None) -> Walk:
    """The graph of these losses, one per example.

    Args:
        losses: shape (B,), with grad.
        counted: the ids of the parameters that count; None: every `nn.Parameter`.
        layers: the last operations of layers that have a rule of the user's own.

    Raises:
        UnprovenError: it cannot be told which numbers belong to which example.
    """
    if len(losses) == 1:
        return _of_one_example(losses, counted)
    if losses.grad_fn is None:
        raise UnprovenError("the losses are no result of an operation")
    leaves: dict[Node, Place] = {}
    steps = _steps(losses, leaves, layers or {}, _leading_to(losses.grad_fn, counted) if counted else None)
    shared: dict[Edge, Shared] = {}
    junctions = []
    seen: set[Node] = set()
    for step, inputs in steps.values():
        junction = Junction(step)
        for number, (edge, place) in enumerate(zip(step.edges, inputs, strict=True)):
            if edge[0] is None or place is not None:
                continue
            found = shared.get(edge) or _shared(edge, len(losses), counted, seen)
            if found.parameters:
                shared[edge] = found
                found.num_uses += 1
                junction_rule(step, number)
                junction.shared[number] = edge
        if junction.shared:
            junctions.append(junction)
    for node in seen:
        if node in steps:
            raise UnprovenError(f"{kind_of(node)}: what it gives is used by all examples: examples are mixed")
    return Walk(losses.grad_fn, {node: step for node, (step, _) in steps.items()}, junctions, shared, seen, leaves)


def _of_one_example(losses: torch.Tensor, counted: set[int] | None) -> Walk:
    """In a batch of one everything belongs to the one example, and each leaf is a junction of its own."""
    steps: dict[Node, Step] = {}
    root = get_gradient_edge(losses).node  # a leaf, if the loss is a parameter itself
    stack: list[Node] = [root]
    while stack:
        node = stack.pop()
        if node is not None and node not in steps:
            steps[node] = Step(node, [Place(1)] * len(_unknown(node)))
            stack.extend(child for child, _ in node.next_functions)
    leaves = {node: step for node, step in steps.items() if type(node).__name__ == LEAF}
    counting = {node: step for node, step in leaves.items() if _counts(node.variable, counted)}
    junctions = [Junction(step, {0: (node, 0)}) for node, step in counting.items()]
    shared = {(node, 0): Shared((node, 0), [node.variable], 1, node.variable) for node in counting}
    return Walk(root, steps, junctions, shared, set(leaves), {node: Place(1) for node in leaves})


def _leading_to(root: Node, counted: set[int]) -> set[Node]:
    """The operations with a counted parameter behind them, or one that nobody knows, which may hide some.

    Nothing else sends a gradient to what counts, such as another network that has made the batch.
    """
    users: dict[Node, list[Node]] = {root: []}
    stack, leading = [root], []
    while stack:
        node = stack.pop()
        is_leaf = type(node).__name__ == LEAF
        if _counts(node.variable, counted) if is_leaf else kind_of(node) not in OPERATIONS:
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


def _steps(
    losses: torch.Tensor,
    leaves: dict[Node, Place],
    layers: Mapping[Node, LayerStep],
    leading: set[Node] | None,
) -> dict[Node, tuple[Step, list[Place | None]]]:
    """Every operation that some example has for itself, from the losses on, with the places in its inputs.

    Those that lead to nothing that counts are left out; None: no operation is.
    """
    root = losses.grad_fn
    places: dict[Node, list[Place | None]] = {root: _unknown(root)}
    places[root][losses.output_nr] = Place(len(losses))
    # An operation comes after those whose results it uses, and torch numbers them as they are made.
    waiting = [(-root._sequence_nr(), 0, root)]  # type: ignore[union-attr] # noqa: SLF001 - no public way
    done: dict[Node, tuple[Step, list[Place | None]]] = {}
    while waiting:
        node = heapq.heappop(waiting)[2]
        step = layers.get(node) or Step(node, places[node])
        step.places = places[node]
        inputs = step.input_places() if isinstance(step, LayerStep) else input_places(step)
        done[node] = (step, inputs)
        for (child, number), place in zip(step.edges, inputs, strict=True):
            if child is None or place is None or (leading is not None and child not in leading):
                continue
            if type(child).__name__ == LEAF:
                _check_leaf(child)
                leaves[child] = leaves[child].merged(place) if child in leaves else place
                continue
            if child in done:
                raise UnprovenError(f"{kind_of(child)}: the graph was not made in one forward pass")
            if child not in places:
                places[child] = _unknown(child)
                heapq.heappush(waiting, (-child._sequence_nr(), len(places), child))  # noqa: SLF001
            known = places[child][number]
            places[child][number] = place if known is None else known.merged(place)
    return done


def _unknown(node: Node) -> list[Place | None]:
    return [None] * len(node._input_metadata)  # noqa: SLF001 - no public way


def _check_leaf(leaf: Node) -> None:
    if isinstance(leaf.variable, nn.Parameter):
        raise UnprovenError(
            f"a parameter of shape {tuple(leaf.variable.shape)} is used as if it had a row for every example"
        )


def _shared(edge: Edge, size: int, counted: set[int] | None, seen: set[Node]) -> Shared:
    """What is behind a shared input; the operations behind it are added to `seen`."""
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
        else:
            _check_no_batch(node, size)
            if isinstance(node, BackwardCFunction):
                raise UnprovenError(f"{kind_of(node)}: what all examples share goes through it, and it is in Python")
            stack.extend(child for child, _ in node.next_functions)
    seen |= own


_OF_DATA = {"Addmm": "mat1", "Mm": "self", "Bmm": "self", "Convolution": "input", "Embedding": "indices"}
"""Operations by which data enters a graph, and the name under which they keep it."""


def _check_no_batch(node: Node, size: int) -> None:
    """What is shared is made of parameters alone, not of the batch: all examples would depend on it."""
    kept = _OF_DATA.get(kind_of(node))
    if kept is None:
        return
    is_data = kind_of(node) == "Embedding" or node.next_functions[kind_of(node) == "Addmm"][0] is None
    data = getattr(node, f"_saved_{kept}") if is_data else None
    if data is not None and data.ndim > 1 and len(data) == size and not _is_by_distance(data):
        raise UnprovenError(f"{kind_of(node)}: all examples depend on what it makes of the batch: examples are mixed")


def _is_by_distance(data: torch.Tensor) -> bool:
    """Whether these are the numbers of pairs of positions by their distance, of which a batch may have as many."""
    is_matrix = data.ndim == 2 and not data.is_floating_point()  # noqa: PLR2004 - a matrix
    return is_matrix and torch.equal(data[1:, 1:], data[:-1, :-1])
