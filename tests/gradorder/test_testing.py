"""`check_ordering` lets every rule of the library pass, and notices what a rule may get wrong."""

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import gradorder as go
from gradorder import orderings
from gradorder.testing import check_ordering

CLASSES = [getattr(orderings, name) for name in orderings.__all__]
RULES = [each for each in CLASSES if issubclass(each, go.Ordering) and each is not go.Ordering]
NESTED = [
    go.FlipFlop(go.Revisiting(go.Undecided(go.PlackettLuce(0.5)), every=3)),
    go.Undecided(go.Revisiting(go.PlackettLuce(unbiased=True))),
    go.FlipFlop(go.InfoBatch(4, ratio=0.2)),
    go.Revisiting(go.InfoBatch(10)),
]


@pytest.mark.parametrize("rule", [*(rule for each in RULES for rule in each.typical()), *NESTED], ids=str)
def test_every_rule_of_the_library_keeps_the_contract(rule):
    check_ordering(rule)


def test_every_listed_rule_is_tried():
    assert len(RULES) >= 13
    assert all(each.typical() and all(type(rule) is each for rule in each.typical()) for each in RULES)


def of(request, **changes):
    order = torch.argsort(request.scores, descending=True, stable=True)
    return go.Order(request.kept(order), **changes)


def by_global_numbers(request):
    return go.Order(request.kept(torch.randperm(request.num_examples)))


def by_numpys_numbers(request):
    np.random.random()
    return of(request)


def by_pythons_numbers(request):
    random.random()
    return of(request)


def with_changed_scores(request):
    request.scores.mul_(-1)
    return of(request)


def without_known(request):
    return of(replace(request, known=None))


def by_first_score_type(request):
    values = request.scores if request.scores.dtype == torch.float32 else -request.scores
    return go.Order(request.kept(torch.argsort(values, stable=True)))


BROKEN = {
    "a list": (lambda request: request.kept(torch.arange(request.num_examples)), "must give an Order"),
    "too few": (lambda request: go.Order(of(request).indices[:1]), "must name 2 of range"),
    "twice": (lambda request: go.Order(of(request).indices[:1].repeat(len(of(request).indices))), "an example twice"),
    "out of range": (lambda request: go.Order(of(request).indices + 1), "indices from 1 to"),
    "floats": (lambda request: go.Order(of(request).indices.float()), "torch.float32"),
    "negative weights": (lambda request: of(request, weights=-torch.ones(sum(request.num_kept))), "not negative"),
    "weights of all": (lambda request: of(request, weights=torch.ones(request.num_examples)), "one weight for each"),
    "NaN weights": (lambda request: of(request, weights=torch.full((sum(request.num_kept),), torch.nan)), "finite"),
    "global torch": (by_global_numbers, "must draw from request.generator alone|the same order"),
    "global numpy": (by_numpys_numbers, "must draw from request.generator alone"),
    "global python": (by_pythons_numbers, "must draw from request.generator alone"),
    "changed scores": (with_changed_scores, "must not change request.scores"),
    "never scored anywhere": (without_known, "never scored first"),
    "by dtype": (by_first_score_type, "the same order for scores of torch"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_noticed(name):
    rule, message = BROKEN[name]

    @dataclass(frozen=True)
    class Broken(go.Ordering):
        needs_scores = True

        def order(self, request):
            return rule(request)

    with pytest.raises(AssertionError, match=message):
        check_ordering(Broken())


def test_a_rule_with_state_is_noticed():
    class Counting(go.Ordering):
        needs_scores = True

        def order(self, request):
            return of(request)

    with pytest.raises(AssertionError, match=r"must be decorated with @dataclass\(frozen=True\)"):
        check_ordering(Counting())


@pytest.mark.parametrize(
    ("source", "message"),
    [(lambda epoch: epoch + 1, "must be 0 to 0"), (lambda epoch: max(0, epoch - 1), "must be itself")],
)
def test_a_rule_that_replays_what_is_not_there_is_noticed(source, message):
    @dataclass(frozen=True)
    class Replaying(go.Ordering):
        needs_scores = True

        def order(self, request):
            return of(request)

        def source_epoch(self, epoch):
            return source(epoch)

    with pytest.raises(AssertionError, match=message):
        check_ordering(Replaying())


def test_a_rule_that_serves_nobody_is_noticed():
    @dataclass(frozen=True)
    class Refusing(go.Ordering):
        needs_scores = True

        def order(self, request):
            return of(request)

        def num_kept(self, request):
            raise ValueError("not today")

    with pytest.raises(AssertionError, match="must serve a plain request"):
        check_ordering(Refusing())
