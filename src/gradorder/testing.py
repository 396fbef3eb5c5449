"""A check of the contract of orderings, for your own rules.

Use it in a test::

from gradorder.testing import check_ordering

def test_my_rule():
    check_ordering(MyRule())
"""

import copy
import dataclasses
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from gradorder.orderings import Order, Ordering, Request
from gradorder.orderings.ordering import checked_order, epoch_generator
from gradorder.sampler import OrderedSampler

_SIZES = (1, 2, 7, 40)  # the minimum, a pair, classes of different sizes, and several batches
_EPOCHS = range(6)  # several pairs of epochs, for rules that replay an epoch
_NUM_CLASSES = 3


def check_ordering(rule: Ordering) -> None:
    """Raise an AssertionError that explains the problem if a rule breaks the contract of `gradorder.Ordering`.

    The check requests orders of several sizes, epochs, fractions and classes, and uses the rule in a sampler. A rule
    may raise a ValueError for classes, a fraction or several processes, but it must serve a plain request.

    Example:
        >>> import gradorder as go
        >>> check_ordering(go.Descending())
    """
    _check_is_a_frozen_value(rule)
    for request in _requests(rule):
        what = f"{rule} asked for {_description(request)}"
        order = _answer(rule, request, what)
        _check_repeats_itself(rule, request, order, what)
        _check_does_not_change_its_request(rule, request, what)
        if rule.needs_scores:
            _check_puts_never_scored_first(rule, request, what)
    _check_takes_any_real_scores(rule)
    _check_serves_a_sampler(rule)


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _check_is_a_frozen_value(rule: Ordering) -> None:
    _require(isinstance(rule, Ordering), f"a rule must be a subclass of gradorder.Ordering, got {rule!r}")
    is_frozen = dataclasses.is_dataclass(rule) and rule.__dataclass_params__.frozen
    _require(
        is_frozen,
        f"{type(rule).__name__} must be decorated with @dataclass(frozen=True), because a rule holds no state",
    )
    twin = copy.deepcopy(rule)
    _require(
        twin == rule and hash(twin) == hash(rule),
        f"{rule} must be equal to its copy: all of its state must be in its fields",
    )
    _require(isinstance(rule.needs_scores, bool), f"{rule}.needs_scores must be True or False, got {rule.needs_scores}")


def _requests(rule: Ordering) -> Iterator[Request]:
    """Yield the requests that the rule serves."""
    for size in _SIZES:
        scores = torch.from_numpy(np.random.default_rng(size).permutation(size) + 1.0).float()
        classes = torch.arange(size) % _NUM_CLASSES
        for epoch in _EPOCHS:
            generator = epoch_generator(size, epoch)
            plain = Request(epoch, size, generator, scores if rule.needs_scores else None)
            _require(
                _serves(rule, plain), f"{rule} must serve a plain request of {size} examples, without classes or keep"
            )
            yield plain
            for change in ({"keep": 0.5}, {"classes": classes}, {"keep": 0.5, "classes": classes}, {"num_replicas": 2}):
                request = replace(plain, **change)
                if _serves(rule, request):
                    yield request


def _serves(rule: Ordering, request: Request) -> bool:
    """Whether the rule raises no ValueError for this request."""
    try:
        rule.start(request)
        rule.order(_again(request))
    except ValueError:
        return False
    return True


def _description(request: Request) -> str:
    extras = [f"keep={request.keep}"] * (request.keep is not None) + ["classes"] * (request.classes is not None)
    return " and ".join([f"epoch {request.epoch} of {request.num_examples} examples", *extras])


def _again(request: Request) -> Request:
    """The same request, with its generator as it was at first."""
    generator = torch.Generator()
    generator.set_state(request.generator.get_state())
    return replace(request, generator=generator)


def _answer(rule: Ordering, request: Request, what: str) -> Order:
    try:
        order = checked_order(rule, request, rule.order(_again(request)))
    except Exception as error:
        raise AssertionError(f"{what} must return an order, but raised {error!r}") from error
    if not order.repeats and not order.is_unscored:  # without enough scores an epoch is complete
        kept = torch.bincount(request.classes_of(order.indices).long(), minlength=len(request.counts)).tolist()
        _require(
            all(given <= asked for given, asked in zip(kept, request.kept_counts, strict=True)),
            f"{what} must keep at most {request.kept_counts} of its classes (use request.kept), got {kept}",
        )
    return order


def _check_repeats_itself(rule: Ordering, request: Request, order: Order, what: str) -> None:
    before = _global_states()
    again = checked_order(rule, request, rule.order(_again(request)))
    _require(
        _global_states() == before,
        f"{what} must draw random numbers only from request.generator, not from a global generator",
    )
    _require(
        torch.equal(again.indices, order.indices), f"{what} must return the same order for the same generator state"
    )
    has_weights = order.weights is not None
    _require((again.weights is not None) == has_weights, f"{what} must return weights every time or never")
    if order.weights is not None and again.weights is not None:
        _require(torch.equal(again.weights, order.weights), f"{what} must return the same weights every time")


def _global_states() -> tuple[object, ...]:
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 - read only, to compare it later
    parts = numpy_state.pop("state").items()
    numpy_parts = {name: bytes(part) if isinstance(part, np.ndarray) else part for name, part in parts}
    return random.getstate(), (numpy_state, numpy_parts), bytes(torch.get_rng_state().numpy())


def _check_does_not_change_its_request(rule: Ordering, request: Request, what: str) -> None:
    given = _again(request)
    copies = {name: getattr(given, name).clone() for name in ("scores", "classes") if getattr(given, name) is not None}
    rule.order(given)
    for name, value in copies.items():
        _require(torch.equal(value, getattr(given, name)), f"{what} must not change request.{name}")


def _check_puts_never_scored_first(rule: Ordering, request: Request, what: str) -> None:
    if request.num_examples < _SIZES[-1]:  # only if there is room: a rule may have other examples that it must visit
        return
    never_scored = torch.tensor([3, 16, 30])
    known = torch.ones(request.num_examples, dtype=torch.bool)
    known[never_scored] = False
    order = rule.order(replace(_again(request), known=known))
    first = sorted(order.indices[: len(never_scored)].tolist())
    _require(
        first == never_scored.tolist(),
        f"{what} must put examples that were never scored first (use request.kept), but started with {first}",
    )


def _check_takes_any_real_scores(rule: Ordering) -> None:
    scores = torch.arange(30).roll(7)
    for dtype in (torch.float64, torch.bfloat16, torch.int64):
        order = rule(scores.to(dtype), epoch=1, generator=torch.Generator())
        plain = rule(scores.float(), epoch=1, generator=torch.Generator())
        _require(torch.equal(order, plain), f"{rule} must return the same order for scores of {dtype} and of float32")


def _check_serves_a_sampler(rule: Ordering) -> None:
    sampler = OrderedSampler(_SIZES[-1], 4, ordering=rule, start_epoch=1)
    for epoch in _EPOCHS[:2]:
        sampler.set_epoch(epoch, scores=torch.arange(1.0, _SIZES[-1] + 1) if rule.needs_scores else None)
        examples = list(sampler)
        _require(
            len(examples) == len(sampler),
            f"{rule} must give a sampler as many examples as its length, {len(sampler)}, got {len(examples)}",
        )
