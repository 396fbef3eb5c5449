"""Vectors of eight numbers for the compiled loop, written as LLVM code.

A loop over the features compiles badly where there are few of them: most of 13 features would be left to its scalar
end. Here the end is one masked load.
"""

# mypy: disable-error-code="no-untyped-call"

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

Value = Any
"""A value or a type of LLVM or numba, a context or a builder: these have no types of their own."""

LANES = 8

# Sums may be reordered and multiplications fused; NaN and infinity keep their meaning, since divergence is found by
# them.
FLAGS = ("arcp", "contract", "nsz", "reassoc")


def _written_in_llvm(function: Callable[..., Value]) -> Value:
    """Numba's `intrinsic`: a function of types gives the result's type and a function that writes the code."""
    return intrinsic(function)


@_written_in_llvm
def prefetch(typing_context: Value, array: Value, place: Value) -> Value:  # noqa: ARG001
    """Ask the processor for the cache line of array[place], a tuple, which is needed soon."""

    def generate(context: Value, builder: Value, signature: Value, arguments: Value) -> Value:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        indices = cgutils.unpack_tuple(builder, arguments[1])
        address = cgutils.get_item_pointer(context, builder, signature.args[0], struct, indices)
        pointer, number = ir.PointerType(ir.IntType(8)), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, number, number, number]), "llvm.prefetch.p0"
        )
        builder.call(function, [builder.bitcast(address, pointer), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, place), generate


class _Vectors:
    """Writes LLVM code for vectors of eight numbers, as loops over d compile badly where d is small."""

    def __init__(self, context: Value, builder: Value) -> None:
        self.context, self.builder = context, builder
        self.double = ir.VectorType(ir.DoubleType(), LANES)

    def splat(self, number: Value) -> Value:
        """The same number eight times."""
        one = self.builder.insert_element(ir.Constant(self.double, ir.Undefined), number, ir.IntType(32)(0))
        return self.builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    def load(self, start: Value, j: Value, mask: Value = None) -> Value:
        """start[j : j + 8] as doubles; where the mask is given, zeros outside of it."""
        number = start.type.pointee
        vector = ir.VectorType(number, LANES)
        place = self.builder.bitcast(self.builder.gep(start, [j]), ir.PointerType(vector))
        if mask is None:
            loaded = self.builder.load(place, align=4)
        else:
            size = 64 if isinstance(number, ir.DoubleType) else 32
            function = self._function(
                f"llvm.masked.load.v{LANES}f{size}.p0", vector, [place.type, ir.IntType(32), mask.type, vector]
            )
            loaded = self.builder.call(function, [place, ir.IntType(32)(4), mask, ir.Constant(vector, [0.0] * LANES)])
        return loaded if isinstance(number, ir.DoubleType) else self.builder.fpext(loaded, self.double)

    def store(self, values: Value, start: Value, j: Value) -> None:
        """start[j : j + 8] = values."""
        place = self.builder.bitcast(self.builder.gep(start, [j]), ir.PointerType(self.double))
        self.builder.store(values, place, align=8)

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """X * y + z."""
        return self.builder.fadd(self.builder.fmul(x, y, flags=FLAGS), z, flags=FLAGS)

    def new_sum(self) -> Value:
        """Room for a running sum, zero."""
        return cgutils.alloca_once_value(self.builder, ir.Constant(self.double, [0.0] * LANES))

    def add_to(self, running: Value, x: Value, y: Value) -> None:
        """Add x * y to a running sum."""
        self.builder.store(self.multiply_add(x, y, self.builder.load(running)), running)

    def total(self, running: Value) -> Value:
        """The sum of the eight."""
        name, number = f"llvm.vector.reduce.fadd.v{LANES}f64", ir.DoubleType()
        function = self._function(name, number, [number, self.double])
        return self.builder.call(function, [number(0.0), self.builder.load(running)], fastmath=FLAGS)

    def loop(self, num: Value, block: Callable[[Value, Value], None]) -> None:
        """`block(j, None)` for each whole vector of range(num), `block(j, mask)` for what is left."""
        builder, zero = self.builder, ir.IntType(64)(0)
        num_whole = builder.and_(num, ir.IntType(64)(-LANES))
        with cgutils.for_range_slice(builder, zero, num_whole, ir.IntType(64)(LANES), inc=True) as (j, _):
            block(j, None)
        rest = builder.sub(num, num_whole)
        with builder.if_then(builder.icmp_signed(">", rest, zero)):
            block(num_whole, self.first(rest))

    def start(self, kind: Value, array: Value, row: Value = None) -> Value:
        """The address of an array, or of a row of it."""
        place = [ir.IntType(64)(0)] if row is None else [row, ir.IntType(64)(0)]
        struct = self.context.make_array(kind)(self.context, self.builder, array)
        return cgutils.get_item_pointer(self.context, self.builder, kind, struct, place)

    def num_columns(self, kind: Value, array: Value) -> Value:
        """The second number of the shape."""
        return cgutils.unpack_tuple(
            self.builder, self.context.make_array(kind)(self.context, self.builder, array).shape
        )[1]

    def first(self, num: Value) -> Value:
        """The mask of the first `num` lanes."""
        kind = ir.VectorType(ir.IntType(64), LANES)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), num, ir.IntType(32)(0))
        nums = self.builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
        return self.builder.icmp_signed("<", ir.Constant(kind, list(range(LANES))), nums)

    def _function(self, name: str, result: Value, arguments: Value) -> Value:
        return cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(result, arguments), name)


@_written_in_llvm
def advance(  # noqa: PLR0917 - a compiled function takes no keywords
    typing_context: Value,  # noqa: ARG001
    weights: Value,
    rows: Value,
    previous: Value,
    current: Value,
    following: Value,
    shrink: Value,
    update: Value,
) -> Value:
    """In one pass w <- shrink * w + update * x_previous; returns w.x_following and x_current.x_following.

    From these two follows the next prediction as soon as the update on x_current is known, so that the pass for one
    step and the loss of the next one run at the same time. Weights are padded with zeros to whole vectors.
    """

    def generate(context: Value, builder: Value, signature: Value, arguments: Value) -> Value:
        vectors = _Vectors(context, builder)
        start = vectors.start(signature.args[0], arguments[0])
        x_previous, x_current, x_following = (
            vectors.start(signature.args[1], arguments[1], row) for row in arguments[2:5]
        )
        shrink, update = vectors.splat(arguments[5]), vectors.splat(arguments[6])
        product, cross = vectors.new_sum(), vectors.new_sum()

        def block(j: Value, mask: Value) -> None:
            change = builder.fmul(update, vectors.load(x_previous, j, mask), flags=FLAGS)
            weight = vectors.multiply_add(shrink, vectors.load(start, j), change)
            vectors.store(weight, start, j)
            following = vectors.load(x_following, j, mask)
            vectors.add_to(product, weight, following)
            vectors.add_to(cross, vectors.load(x_current, j, mask), following)

        vectors.loop(vectors.num_columns(signature.args[1], arguments[1]), block)
        return context.make_tuple(builder, signature.return_type, [vectors.total(product), vectors.total(cross)])

    result = types.UniTuple(types.float64, 2)
    return result(weights, rows, previous, current, following, shrink, update), generate


@_written_in_llvm
def vector_dot(typing_context: Value, weights: Value, rows: Value, i: Value) -> Value:  # noqa: ARG001
    """w.x_i, the weights padded with zeros to whole vectors."""

    def generate(context: Value, builder: Value, signature: Value, arguments: Value) -> Value:
        vectors = _Vectors(context, builder)
        weights = vectors.start(signature.args[0], arguments[0])
        row = vectors.start(signature.args[1], arguments[1], arguments[2])
        product = vectors.new_sum()
        vectors.loop(
            vectors.num_columns(signature.args[1], arguments[1]),
            lambda j, mask: vectors.add_to(product, vectors.load(weights, j), vectors.load(row, j, mask)),
        )
        return vectors.total(product)

    return types.float64(weights, rows, i), generate
