"""One contract for every selection: a new one joins by being listed in tests/support/every_selection.py."""

import pytest
import torch
from every_selection import SELECTIONS
from hypothesis import given, settings
from hypothesis import strategies as st
from states import saved_and_loaded
from torch import nn

import gradorder as go
from gradorder import selection as selections


def by_value(model, batch):
    return batch["x"]


def public():
    return [getattr(selections, name) for name in selections.__all__ if name != "Selection"]


every_selection = pytest.mark.parametrize("make", SELECTIONS.values(), ids=SELECTIONS)
with_state = [name for name, make in SELECTIONS.items() if hasattr(make(), "state_dict")]


def nested(values):
    size = len(values)
    names = [f"example {i}" for i in range(size)]
    return {"x": values, "deep": (torch.arange(size), [torch.arange(size).double().numpy()]), "names": names, "note": 3}


def test_every_listed_selection_is_tried():
    assert len(public()) >= 5
    assert set(public()) == {type(make()) for make in SELECTIONS.values()}
    assert len(with_state) >= 4
    assert all(issubclass(kind, go.Selection) and getattr(go, kind.__name__) is kind for kind in public())


@every_selection
@settings(max_examples=settings().max_examples // 4)
@given(values=st.lists(st.floats(0.125, 100, width=32), min_size=1, max_size=20))
def test_chosen_examples_keep_their_parts_together(make, values):
    batch = nested(torch.tensor(values))
    kept, weights = make(score=by_value).weighted(nn.Identity(), batch)
    ids = kept["deep"][0]
    assert 1 <= len(ids) <= len(values)
    assert torch.equal(kept["x"], batch["x"][ids])
    assert kept["deep"][1][0].tolist() == ids.tolist()
    assert kept["names"] == [f"example {i}" for i in ids]
    assert kept["note"] == 3
    assert weights.shape == ids.shape
    assert weights.is_floating_point()
    assert not weights.requires_grad


@every_selection
def test_called_it_gives_the_same_batch_unless_it_reweights(make):
    batch = nested(torch.tensor([0.5, 3.0, 0.25, 8.0, 1.0, 2.0, 0.125]))
    expected, weights = make(score=by_value).weighted(nn.Identity(), batch)
    select = make(score=by_value)
    if select.reweights:
        with pytest.raises(TypeError, match=r"call select\.weighted"):
            select(nn.Identity(), batch)
    else:
        assert torch.equal(select(nn.Identity(), batch)["x"], expected["x"])
        assert weights.tolist() == [1.0] * len(expected["x"])


@every_selection
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_refused(make, bad):
    with pytest.raises(go.NonFiniteScoresError, match="are NaN or infinite"):
        make(score=by_value).weighted(nn.Identity(), nested(torch.full((7,), bad)))


@every_selection
def test_scores_of_another_shape_are_refused(make):
    with pytest.raises(ValueError, match=r"score"):
        make(score=lambda model, batch: batch["x"].mean()).weighted(nn.Identity(), nested(torch.ones(7)))


@pytest.mark.parametrize("name", with_state)
@settings(max_examples=settings().max_examples // 4)
@given(num_before=st.integers(0, 4), seed=st.integers(0, 2**40))
def test_a_loaded_state_goes_on_where_it_was_saved(name, num_before, seed):
    given_settings = {"score": by_value} | ({} if name == "TopLosses" else {"seed": seed})
    generator = torch.Generator().manual_seed(seed)
    batches = [nested(torch.rand(9, generator=generator) ** 6) for _ in range(8)]
    first = SELECTIONS[name](**given_settings)
    for batch in batches[:num_before]:
        first.weighted(nn.Identity(), batch)
    second = SELECTIONS[name](**given_settings)
    second.load_state_dict(saved_and_loaded(first.state_dict()))
    for batch in batches[num_before:]:
        (one, weights), (other, other_weights) = (select.weighted(nn.Identity(), batch) for select in (first, second))
        assert torch.equal(one["deep"][0], other["deep"][0])
        assert torch.equal(weights, other_weights)


@pytest.mark.parametrize("name", [name for name in with_state if name != "TopLosses"])
def test_the_seed_decides(name):
    def run(seed):
        select = SELECTIONS[name](seed=seed, score=by_value)
        batches = [nested(torch.arange(1.0, 40)) for _ in range(3)]
        return [select.weighted(nn.Identity(), batch)[0]["deep"][0].tolist() for batch in batches]

    assert run(1) == run(1)
    assert run(1) != run(2)
    first, second, third = run(1)
    assert len({tuple(first), tuple(second), tuple(third)}) == 3


@every_selection
def test_leaves_the_batch_alone(make):
    values = torch.tensor([0.5, 3.0, 0.25, 8.0, 1.0, 2.0, 0.125])
    batch = nested(values)
    make(score=by_value).weighted(nn.Identity(), batch)
    assert values.tolist() == [0.5, 3.0, 0.25, 8.0, 1.0, 2.0, 0.125]
