"""Matrix products and attention: the weights of linear layers meet the examples here."""

import torch

from gradorder.checks import widened
from gradorder.norms.factored import Blocks, Dense, OuterSum, PerExample
from gradorder.norms.operation import GradientRule, Operation, Place, Rule, broadcast, examples_first, named
from gradorder.norms.rules.pointwise import broadcast_sums


def _matrix_product(op: Operation) -> list[Place | None]:
    """(..., r, k) times (..., k, c): examples along r are in the left factor, along c in the right one."""
    place, ndim = op.place, len(op.shape)
    if place.dim == ndim - 2:
        return [place, None]
    if place.dim == ndim - 1:
        return [None, place]
    return [place, place]


def _matrix_product_added(op: Operation) -> list[Place | None]:
    """A matrix product, added to another tensor."""
    added, _ = op.edges[0]
    first = None if added is None else broadcast(op.place, op.shape, op.input_shape(0))
    return [first, *_matrix_product(op)]


def _matrix_times_vector(op: Operation) -> list[Place | None]:
    """Examples are rows of the matrix; the vector is shared."""
    return [op.place, None]


def _attention(op: Operation) -> list[Place | None]:
    """Queries, keys and values (B, H, T, d), each example by itself."""
    place = op.place
    lengths = {op.input_shape(number)[place.dim] for number in range(3) if op.edges[number][0] is not None}
    is_masked = any(child is not None for child, _ in op.edges[3:])
    if place.dim > 1 or lengths != {place.length} or is_masked:
        raise op.unproven("examples are not its first dimension, or its mask is trained")
    return [place, place, place, *([None] * (len(op.edges) - 3))]


def _grouped_product(op: Operation) -> list[Place | None]:
    """Rows (R, k) in groups, each times a matrix of its own out of (E, k, c): experts."""
    matrices, _ = op.edges[1]
    is_known = matrices is None or len(op.input_shape(1)) == 3  # noqa: PLR2004 - (E, k, c)
    if op.place.dim != 0 or not is_known or op.saved("offs") is None:
        raise op.unproven("there is only a rule for rows in groups")
    return [op.place, None, *([None] * (len(op.edges) - 2))]


def _rows(tensor: torch.Tensor, place: Place) -> torch.Tensor:
    """A matrix with examples along one dimension as (B, positions, features)."""
    return examples_first(tensor, place) if place.dim == 0 else examples_first(tensor.mT, place.at(0))


def _product(op: Operation, gradient: torch.Tensor, number: int, first: str, second: str) -> PerExample:
    """Left @ right with one factor shared: a sum of outer products for each example."""
    if gradient.ndim == 3:  # noqa: PLR2004 - batches of matrices
        return _batched_product(op, gradient, number, first, second)
    if number == 1:
        return OuterSum(_rows(widened(op.saved(first)), op.place), _rows(gradient, op.place))
    return OuterSum(_rows(gradient, op.place), _rows(widened(op.saved(second)), op.place))


def _batched_product(op: Operation, gradient: torch.Tensor, number: int, first: str, second: str) -> PerExample:
    """(N, r, k) @ (N, k, c), N counting heads or experts: examples are along r or along c."""
    each = examples_first(gradient, op.place)
    if number == 1:
        return Dense(examples_first(widened(op.saved(first)), op.place).mT @ each)
    return Dense(each @ examples_first(widened(op.saved(second)), op.place).mT)


def _outer_products(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The sum of the outer products of inputs and output gradients of each example."""
    return _product(op, gradient, number, "self", "mat2")


def _outer_products_added(first: str, second: str) -> GradientRule:
    def rule(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
        """The sum of the outer products of each example; for the added tensor, the gradient summed over broadcasts."""
        # beta * added + alpha * left @ right
        factor = op.saved("beta" if number == 0 else "alpha")
        scaled = gradient if factor == 1 else gradient * factor
        if number == 0:
            return broadcast_sums(op, scaled, 0)
        return _product(op, scaled, number - 1, first, second)

    return rule


def _grouped_outer_products(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The sum of the outer products of each example, for each group by itself."""
    del number
    ends = op.saved("offs").tolist()
    examples = op.place.examples().to(gradient.device)
    inputs = widened(op.saved("self"))
    blocks = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        own = Place(op.place.size, index=examples[start:end])
        blocks.append(OuterSum(_rows(inputs[start:end], own), _rows(gradient[start:end], own)))
    return Blocks(blocks)


def _weighted_rows(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """The rows of the matrix, each times the gradient of its entry, summed over each example."""
    del number
    rows = _rows(widened(op.saved("self")), op.place)
    return Dense((rows * examples_first(gradient, op.place).unsqueeze(2)).sum(1))


RULES: dict[str, Rule] = {
    **named("Mm Bmm", Rule(_matrix_product, _outer_products)),
    "Addmm": Rule(_matrix_product_added, _outer_products_added("mat1", "mat2")),
    "Baddbmm": Rule(_matrix_product_added, _outer_products_added("batch1", "batch2")),
    "Mv": Rule(_matrix_times_vector, _weighted_rows),
    "GroupedMm": Rule(_grouped_product, _grouped_outer_products),
    **named(
        "ScaledDotProductFlashAttentionForCpu ScaledDotProductFlashAttention ScaledDotProductEfficientAttention "
        "ScaledDotProductCudnnAttention ScaledDotProductFusedAttentionOverrideable",
        Rule(_attention),
    ),
}
