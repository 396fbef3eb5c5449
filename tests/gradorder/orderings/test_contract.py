"""One contract for every ordering: a new one joins by being listed in tests/support/every_ordering.py."""

import pytest
import torch
from asking import order_of
from every_ordering import ORDERINGS

import gradorder as go
from gradorder import orderings

scored = [ordering for ordering in ORDERINGS if ordering.needs_scores]
every_ordering = pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
every_scored = pytest.mark.parametrize("ordering", scored, ids=str)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def assert_is_an_order(ordering, order, epoch, num_examples):
    assert order.dtype == torch.int64
    assert set(order.tolist()) <= set(range(num_examples))
    assert 1 <= len(order) <= num_examples
    assert len(order) == num_examples or ordering.start(go.Request(epoch, num_examples, generator())).prunes
    if not isinstance(ordering, go.WithReplacement | go.Informative):
        assert len(set(order.tolist())) == len(order)


def test_every_public_ordering_is_listed():
    public = {
        value
        for value in vars(orderings).values()
        if isinstance(value, type) and issubclass(value, go.Ordering) and value is not go.Ordering
    }
    assert public == {type(ordering) for ordering in ORDERINGS}


@every_ordering
def test_scores_may_be_missing_only_where_none_are_needed(ordering):
    if ordering.needs_scores:
        with pytest.raises(ValueError, match="scores must be given"):
            ordering(None, epoch=0, generator=generator(), num_examples=5)
    else:
        with pytest.raises(ValueError, match="num_examples must be given"):
            ordering(None, epoch=0, generator=generator())
        order = ordering(None, epoch=0, generator=generator(), num_examples=5)
        assert_is_an_order(ordering, order, 0, 5)


@every_scored
def test_scores_matter(ordering):
    scores = torch.cat([torch.zeros(10), torch.logspace(-10, 20, 40)])
    order = ordering(scores, epoch=0, generator=generator())
    mirrored = ordering(scores.flip(0), epoch=0, generator=generator())
    assert not torch.equal(order, mirrored)


@every_ordering
def test_what_is_kept_is_what_was_promised(ordering):
    """With classes and without; a rule that cannot serve the request says so when it is asked how many."""
    scores = torch.linspace(0.1, 3, 24) if ordering.needs_scores else None
    for keep, classes in [(0.5, None), (0.55, torch.tensor([0, 0, 1] * 8)), (None, torch.tensor([0, 1, 2, 3] * 6))]:
        request = go.Request(1, 24, generator(), classes=classes, keep=keep)
        try:
            prunes = ordering.start(request).prunes
        except ValueError as refusal:
            assert "must not be given" in str(refusal)  # noqa: PT017 - whether it is refused is up to the rule
            continue
        order = order_of(ordering, scores, num_examples=24, epoch=1, keep=keep, classes=classes)
        if prunes:
            assert 1 <= len(order.indices) <= 24
            continue
        assert request.num_kept == len(order.indices)
        groups = (
            [list(range(24))]
            if classes is None
            else [(classes == c).nonzero().flatten().tolist() for c in set(classes.tolist())]
        )
        for group in groups:
            assert sum(i in group for i in order.indices.tolist()) == -(-round((keep or 1) * 100 * len(group)) // 100)
