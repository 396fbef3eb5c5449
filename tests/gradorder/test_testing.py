"""`check_ordering` lets every rule of the library pass, and notices what a rule may get wrong."""

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from every_ordering import ORDERINGS

import gradorder as go
from gradorder.testing import check_ordering


@pytest.mark.parametrize("rule", ORDERINGS, ids=str)
def test_every_rule_of_the_library_keeps_the_contract(rule):
    check_ordering(rule)


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
    "a list": (lambda request: request.kept(torch.arange(request.num_examples)), "must return an Order"),
    "twice": (lambda request: go.Order(of(request).indices[:1].repeat(len(of(request).indices))), "an example twice"),
    "out of range": (lambda request: go.Order(of(request).indices + 1), "indices from 1 to"),
    "floats": (lambda request: go.Order(of(request).indices.float()), "torch.float32"),
    "negative weights": (lambda request: of(request, weights=-torch.ones(request.num_kept)), "not negative"),
    "weights of all": (lambda request: of(request, weights=torch.ones(request.num_examples)), "one weight for each"),
    "NaN weights": (lambda request: of(request, weights=torch.full((request.num_kept,), torch.nan)), "finite"),
    "global torch": (by_global_numbers, "only from request.generator|the same order"),
    "global numpy": (by_numpys_numbers, "only from request.generator"),
    "global python": (by_pythons_numbers, "only from request.generator"),
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

    with pytest.raises(AssertionError, match=r"frozen=True"):
        check_ordering(Counting())


def test_a_rule_that_serves_nobody_is_noticed():
    @dataclass(frozen=True)
    class Refusing(go.Ordering):
        needs_scores = True

        def order(self, request):
            return of(request)

        def start(self, request):
            raise ValueError("not today")

    with pytest.raises(AssertionError, match="a plain request"):
        check_ordering(Refusing())


def test_a_rule_may_return_fewer_examples_without_saying_so():
    @dataclass(frozen=True)
    class HardestHalf(go.Ordering):
        needs_scores = True

        def order(self, request):
            order = of(request).indices
            return go.Order(order[: max(4, len(order) // 2)])

    check_ordering(HardestHalf())
    sampler = go.OrderedSampler(40, 4, ordering=HardestHalf())
    sampler.set_epoch(0, scores=torch.arange(40.0))
    assert list(sampler) == list(range(39, 19, -1))


def test_a_rule_that_does_not_know_keep_keeps_the_first_part():
    @dataclass(frozen=True)
    class Deaf(go.Ordering):
        needs_scores = False

        def order(self, request):
            return go.Order(torch.arange(request.num_examples).flip(0))

    labels = [0, 1] * 4
    assert list(go.OrderedSampler(8, 4, ordering=Deaf(), keep=0.5)) == [7, 6, 5, 4]
    assert sorted(go.OrderedSampler(8, 4, ordering=Deaf(), keep=0.25, labels=labels)) == [6, 7]
