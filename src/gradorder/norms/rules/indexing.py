"""Operations that pick or place entries by an index, and tables whose rows an index names."""

import torch

from gradorder.errors import is_out_of_memory
from gradorder.norms.factored import Dense, PerExample, RowSum
from gradorder.norms.operation import (
    Operation,
    Place,
    Rule,
    Shape,
    UnprovenError,
    examples_first,
    is_parameter,
    named,
)


def _index_selected(op: Operation) -> list[Place | None]:
    """Rows of one dimension, picked by an index."""
    (dim,) = op.dims("dim", len(op.shape))
    if dim != op.place.dim:
        return [op.place]
    return [_picked(op.place, op.saved("index"), op.input_shape(0)[dim])]


def _indexed(op: Operation) -> list[Place | None]:
    """x[i, j, :]: an index counts the examples, or all examples look up rows of one table."""
    # The indexed dimensions stand together, and the shape of the indices takes their place.
    place, shape = op.place, op.input_shape(0)
    indices = list(op.saved("indices"))
    at = [dim for dim, index in enumerate(indices) if index is not None]
    tensors = [indices[dim] for dim in at]
    if at != list(range(at[0], at[0] + len(at))) or any(index.dtype == torch.bool for index in tensors):
        raise op.unproven("there is no rule for indices of this kind")
    index_shape = torch.broadcast_shapes(*(index.shape for index in tensors))
    if place.dim < at[0]:
        return [place]
    if place.dim >= at[0] + len(index_shape):
        return [place.at(place.dim - len(index_shape) + len(at))]
    return [_by_indices(op, tensors, at, index_shape, shape)]


def _by_indices(
    op: Operation, tensors: list[torch.Tensor], at: list[int], index_shape: Shape, shape: Shape
) -> Place | None:
    place, along = op.place, op.place.dim - at[0]
    if at == [0] and is_parameter(op.edges[0][0]):
        return None
    for dim, index in zip(at, tensors, strict=True):
        written = index.expand(index_shape).movedim(along, 0)
        first = written.reshape(len(written), -1)[:, 0]
        if bool((written.reshape(len(written), -1) == first.unsqueeze(1)).all()):
            try:
                return _picked(place.at(dim), first, shape[dim])
            except UnprovenError:
                continue
    if at == [0]:
        return None
    raise op.unproven("an index goes across the examples")


def _picked(place: Place, index: torch.Tensor, length: int) -> Place:
    """The place in a tensor from which rows were picked: row index[r] belongs to the example of picked row r."""
    theirs = place.examples().to(index.device)
    examples = index.new_full((length,), -1)
    index = torch.where(index < 0, index + length, index)
    examples[index] = theirs
    if not torch.equal(examples[index], theirs):
        raise UnprovenError("an index gives one row to several examples: examples are mixed, or it is shared")
    return Place(place.size, place.dim, index=examples).regular()


def _index_added(op: Operation) -> list[Place | None]:
    """Rows are added to other rows of the same example."""
    place = op.place
    (dim,) = op.dims("dim", len(op.shape))
    if dim != place.dim:
        return [place, place]
    index = op.saved("index")
    examples = place.examples().to(index.device)[index]
    return [place, Place(place.size, dim, index=examples).regular()]


def _probed(op: Operation) -> list[Place | None]:
    """Numbers are moved; sending each example's number backward through the operation shows where to."""
    # An input entry that feeds n entries of the output gets n from a gradient of ones. From the gradient that holds bit
    # k of each entry's example it gets n or 0 if all these entries belong to one example.
    bits = range(max(1, (op.place.size - 1).bit_length()))
    ones = op.place.examples() >= 0
    codes = [ones] + [ones & (op.place.examples() >> bit & 1).bool() for bit in bits]
    try:
        with torch.no_grad():
            sent = [op.node(_along_examples(op, code)) for code in codes]
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise op.unproven(f"it cannot be probed ({error})") from error
    received = [each if isinstance(each, tuple) else (each,) for each in sent]
    return [
        None if child is None else _owners(op, [each[number] for each in received])
        for number, (child, _) in enumerate(op.edges)
    ]


def _along_examples(op: Operation, code: torch.Tensor) -> torch.Tensor:
    """One number per index along the examples, expanded to a gradient of the operation."""
    metadata = op.node._input_metadata[0]  # noqa: SLF001 - no public way
    by_dim = code.to(metadata.dtype).view([-1 if dim == op.place.dim else 1 for dim in range(len(op.shape))])
    return by_dim.expand(tuple(op.shape)).contiguous().to(op.device)


def _owners(op: Operation, received: list[torch.Tensor]) -> Place:
    counts, *bits = received
    if float(counts.abs().amax()) * torch.finfo(counts.dtype).eps > 1:  # larger sums of ones would be rounded
        raise op.unproven("one entry is used too often to be probed")
    if not all(bool(((bit == 0) | (bit == counts)).all()) for bit in bits):
        raise op.unproven("it gives one number to several examples")
    example = sum((bit != 0).long() << position for position, bit in enumerate(bits))
    owners = torch.where(counts == 0, -1, example)
    for dim in range(owners.ndim):
        flat = owners.movedim(dim, 0).reshape(owners.shape[dim], -1)
        along = flat.amax(1)
        if bool(((flat == along.unsqueeze(1)) | (flat < 0)).all()):
            return Place(op.place.size, dim, index=along).regular()
    raise op.unproven("the examples are not along a dimension before it")


def _looked_up(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """Row index[t] of the table gets the gradient at position t."""
    del number
    indices = op.saved("indices")
    height, *row = op.input_shape(0)
    if len([index for index in indices if index is not None]) != 1 or indices[0] is None:
        raise UnprovenError("Index: only rows of a shared tensor can be told apart")
    index: torch.Tensor = indices[0]
    rows = examples_first(torch.where(index < 0, index + height, index), op.place).flatten(1)
    right = examples_first(gradient, op.place).reshape(len(rows), rows.shape[1], -1)
    return RowSum(rows, right, height, tuple(row))


def _embedding(op: Operation) -> list[Place | None]:
    """All examples share the table; the indices are not part of the graph."""
    _check_scale(op)
    if op.place.dim == len(op.shape) - 1:
        raise op.unproven("examples lie along its vectors")
    return [None]


def _check_scale(op: Operation) -> None:
    if op.saved("scale_grad_by_freq"):
        raise ValueError(
            "scale_grad_by_freq=True divides by counts over the batch, so there is no per-example gradient. "
            "Set it to False"
        )


def _embedded(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """Row indices[t] of the table gets the gradient at position t; the row of padding_idx gets none."""
    del number
    indices: torch.Tensor = op.saved("indices")
    rows = examples_first(indices, op.place).flatten(1)
    right = examples_first(gradient, op.place).flatten(1, -2)
    padding = op.saved("padding_idx")
    if padding < 2**63:  # -1, "none", is saved as an unsigned number
        right = right.masked_fill((rows == padding).unsqueeze(2), 0)
    return RowSum(rows, right, op.input_shape(0)[0])


def _embedding_bag(op: Operation) -> list[Place | None]:
    """All examples share the table; each bag belongs to one example."""
    place = op.places[0]
    _check_scale(op)
    if place is None or place.dim != 0 or op.saved("per_sample_weights") is not None:
        raise op.unproven("examples are not its bags, or indices have weights")
    return [None, *([None] * (len(op.edges) - 1))]


def _bagged(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
    """Every index of a bag gets the gradient of the bag, or its share of it."""
    del number
    mode, indices, offsets = op.saved("mode"), op.saved("indices"), op.saved("offsets")
    place = op.places[0] or op.place
    if mode == _MAX:
        sent = gradient.masked_fill((op.saved("result2") == 0).unsqueeze(1), 0)  # an empty bag sends nothing
        return _largest(examples_first(op.saved("result3"), place), examples_first(sent, place), op)
    bags = torch.searchsorted(offsets, torch.arange(len(indices), device=indices.device), right=True) - 1
    counts = (indices != op.saved("padding_idx")).to(gradient.dtype)
    if mode == _MEAN:
        sizes = torch.zeros(len(gradient), dtype=counts.dtype, device=counts.device).index_add_(0, bags, counts)
        counts = counts / sizes.clamp(min=1)[bags]
    own = Place(place.size, index=place.examples().to(bags.device)[bags])
    right = examples_first(counts.unsqueeze(1) * gradient[bags], own)
    return RowSum(examples_first(indices, own), right, op.input_shape(0)[0])


_MEAN, _MAX = 1, 2
"""The numbers that torch gives to the modes of bags."""


def _largest(rows: torch.Tensor, gradient: torch.Tensor, op: Operation) -> PerExample:
    """Every number of a bag's vector comes from one row of the table; an empty bag names -1 or any row."""
    height, width = op.input_shape(0)
    written = gradient.new_zeros(len(rows), height, width)
    gradient = gradient.flatten(1, -2).masked_fill(rows.flatten(1, -2) < 0, 0)
    return Dense(written.scatter_add_(1, rows.flatten(1, -2).clamp(min=0), gradient))


RULES: dict[str, Rule] = {
    "IndexSelect": Rule(_index_selected),
    "Index": Rule(_indexed, _looked_up),
    "IndexAdd": Rule(_index_added),
    **named("AsStrided CopySlices MaskedSelect MaskedScatter IndexPut IndexPutImpl IndexFill IndexCopy", Rule(_probed)),
    "Embedding": Rule(_embedding, _embedded),
    "EmbeddingBag": Rule(_embedding_bag, _bagged),
}
