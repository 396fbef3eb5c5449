"""Operations that keep the examples where they are: entry by entry, along a dimension such as softmax, and losses."""

from collections.abc import Callable
from typing import Any

import torch

from gradorder.checks import widened
from gradorder.norms.factored import Dense, PerExample
from gradorder.norms.operation import (
    IDENTITIES,
    GradientRule,
    Operation,
    Place,
    PlaceRule,
    Rule,
    UnprovenError,
    broadcast,
    examples_first,
    named,
    output_shape,
    summed_to,
)


def entrywise(op: Operation) -> list[Place | None]:
    """Every entry depends on the entries at its own place; inputs may be broadcast."""
    place, shape = op.place, op.shape
    return [
        None if child is None else broadcast(place, shape, output_shape(child, number)) for child, number in op.edges
    ]


def _last_dimension_added(op: Operation) -> list[Place | None]:
    """A complex number becomes two real ones along a new last dimension, or the reverse."""
    if op.kind == "ViewAsReal" and op.place.dim == len(op.shape) - 1:
        raise op.unproven("it goes along the examples")
    return [op.place]


def _identity(op: Operation) -> list[Place | None]:
    """The last inputs are returned unchanged."""
    others = len(op.edges) - len(op.places)
    return [*([None] * others), *op.places]


def _unreduced_loss(op: Operation) -> list[Place | None]:
    """A loss without reduction is entrywise."""
    if op.saved("reduction") != 0:
        raise op.unproven("the loss is reduced over the batch")
    return entrywise(op)


def _picked_target(op: Operation) -> list[Place | None]:
    """The negative log-likelihood removes the class dimension: (B, C, ...) -> (B, ...)."""
    if op.saved("reduction") != 0:
        raise op.unproven("the loss is reduced over the batch")
    place = op.places[0]
    if place is None:
        raise op.unproven("only its total weight is used")
    return [place.at(place.dim + (place.dim > 0))]


def _along(name: str = "dim") -> PlaceRule:
    def rule(op: Operation) -> list[Place | None]:
        """Entries depend on others along some dimensions; the shape stays."""
        place = op.common_place
        shapes = [output_shape(child, number) for child, number in op.edges if child is not None]
        dims = op.dims(name, len(shapes[0])) or (range(len(shapes[0])) if op.kind == "Roll" else [])
        if place.dim in dims or any(shape[place.dim] != place.length for shape in shapes):
            raise op.unproven("it goes along the examples")
        return [place] * len(op.edges)

    return rule


def broadcast_sums(op: Operation, values: torch.Tensor, number: int) -> PerExample:
    """Values at the output, summed over all entries to which the shared input was broadcast."""
    place = op.places[0] or op.place
    return Dense(summed_to(examples_first(values, place), op.input_shape(number)))


def _times(factor: Callable[[Operation, int], Any]) -> GradientRule:
    def rule(op: Operation, gradient: torch.Tensor, number: int) -> PerExample:
        """The gradient times the derivative of each entry, summed over broadcast dimensions."""
        by = factor(op, number)
        if isinstance(by, torch.Tensor):
            gradient = gradient * widened(by)
        elif by != 1:
            gradient = gradient * by
        return broadcast_sums(op, gradient, number)

    return rule


def _other_factor(op: Operation, number: int) -> Any:  # noqa: ANN401 - a tensor or a number
    return op.saved("self" if number == 1 else "other")


def _of_quotient(op: Operation, number: int) -> torch.Tensor:
    if getattr(op.node, "_saved_rounding_mode", None) is not None:
        raise UnprovenError("Div: a rounded quotient has no gradient")
    divisor = widened(op.saved("other"))
    return 1 / divisor if number == 0 else -widened(op.saved("self")) / divisor**2


def _condition(op: Operation, number: int) -> torch.Tensor:
    condition: torch.Tensor = op.saved("condition")
    return (condition if number == 0 else ~condition).to(torch.float32)


def _mask(op: Operation, number: int) -> torch.Tensor:
    mask: torch.Tensor = op.saved("mask")
    return (mask if number == 1 else ~mask).to(torch.float32)


RULES: dict[str, Rule] = {
    **named(
        "Abs Acos Acosh Addcdiv Addcmul Alias Asin Asinh Atan Atan2 Atanh Ceil Celu Clamp ClampMax ClampMin Clone "
        "Copysign Cos Cosh Elu Erf Erfc Erfinv Exp Exp2 Expm1 Floor Fmod Frac Gelu Hardshrink Hardsigmoid "
        "Hardswish Hardtanh Hypot LeakyRelu Lerp Lgamma Log Log10 Log1P Log2 LogSigmoid Logaddexp Logit "
        "Maximum Minimum Mish NanToNum NativeDropout Neg Pow Reciprocal Relu Relu6 Remainder Round "
        "Rsqrt Rsub Real Imag Conj Complex Selu Sgn Sigmoid Sign Silu Sin Sinc Sinh Softplus Softshrink Sqrt Square "
        "Tan Tanh Threshold ToCopy Tril Triu Trunc Xlogy",
        Rule(entrywise),
    ),
    "Add": Rule(entrywise, _times(lambda op, number: 1 if number == 0 else op.saved("alpha"))),
    "Sub": Rule(entrywise, _times(lambda op, number: 1 if number == 0 else -op.saved("alpha"))),
    "Mul": Rule(entrywise, _times(_other_factor)),
    "Div": Rule(entrywise, _times(_of_quotient)),
    "Expand": Rule(entrywise, _times(lambda _op, _number: 1)),
    "Where": Rule(entrywise, _times(_condition)),
    "MaskedFill": Rule(entrywise, _times(_mask)),
    "PreluKernel": Rule(entrywise, _times(lambda op, _number: op.saved("self").clamp(max=0))),
    **named("ViewAsReal ViewAsComplex", Rule(_last_dimension_added)),
    **named(" ".join(IDENTITIES), Rule(_identity)),
    **named(
        "BinaryCrossEntropy BinaryCrossEntropyWithLogits HuberLoss MseLoss SmoothL1Loss SoftMarginLoss L1Loss KlDiv",
        Rule(_unreduced_loss),
    ),
    **named("NllLoss NllLoss2D", Rule(_picked_target)),
    **named(
        "Softmax SafeSoftmax LogSoftmax FftC2C FftR2C FftC2R Cumsum Cumprod Logcumsumexp Sort Glu Topk Gather Scatter "
        "ScatterAdd",
        Rule(_along()),
    ),
    **named("Roll Flip", Rule(_along("dims"))),
}
