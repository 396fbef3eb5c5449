import random
import time

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import TensorDataset

import gradorder as go
from gradorder.norms import reference


class Clock:
    """Stands still but for what it is told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def timed_losses(clock, *, step, scoring, losses=go.squared_error):
    """Losses of a batch that take this long, on the copy that is trained and on the model that is scored.

    A single example, with which scores check themselves, takes no time.
    """

    def slow(model, batch):
        if len(batch[0]) > 1:
            clock.now += step if model.training else scoring
        return losses(model, batch)

    return slow


def line(errors):
    """A linear model at zero: the gradient norm of an example with target y and input 1 is 2 |y| sqrt(2)."""
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    targets = torch.as_tensor(errors, dtype=torch.float32)
    return model, TensorDataset(torch.ones(len(targets), 1), targets)


def advised(errors, *, step=4.0, scoring=1.0, **settings):
    clock = Clock()
    model, dataset = line(errors)
    losses = timed_losses(clock, step=step, scoring=scoring)
    return go.advise(model, dataset, losses=losses, clock=clock, **({"batch_size": 50} | settings))


def by_name(advice):
    return {score.name: score for score in advice.scores}


SKEWED = [30.0] * 10 + [0.1] * 190


def test_equal_norms_are_unlikely_to_pay():
    advice = advised([2.0] * 200)
    assert advice.verdict == "unlikely"
    assert advice.variation == pytest.approx(0, abs=1e-6)
    assert advice.gain == pytest.approx(1)
    assert {score.rank_correlation for score in advice.scores} == {None}


def test_skewed_norms_are_likely_to_pay():
    advice = advised(SKEWED)
    assert advice.verdict == "likely"
    assert advice.best.name == "remembered losses"
    norms = 2 * np.sqrt(2) * np.array(SKEWED)
    assert advice.num_examples == 200
    assert advice.variation == pytest.approx(norms.std() / norms.mean(), rel=1e-5)
    assert advice.effective_share == pytest.approx(norms.mean() ** 2 / (norms**2).mean(), rel=1e-5)
    assert advice.harder_half_share == pytest.approx(np.sort(norms)[100:].sum() / norms.sum(), rel=1e-5)


def test_costs_are_relative_to_the_training_step():
    advice = advised(SKEWED, step=4.0, scoring=1.0)
    scores = by_name(advice)
    assert advice.step_seconds == 4.0
    assert scores["Loss"].cost == scores["LastLayerBound"].cost == scores["GradientNorm"].cost == 0.25
    assert scores["remembered losses"].cost == 0.0
    assert scores["Loss"].gain == scores["remembered losses"].gain
    assert scores["GradientNorm"].gain_per_time == scores["GradientNorm"].gain / 1.25


@pytest.mark.parametrize("size", [50, 200])
def test_other_work_of_the_machine_in_some_of_the_rounds_does_not_count(size):
    """Fails where the mean is taken, or one round alone: with one batch as with four."""
    clock, calls = Clock(), []
    model, dataset = line(SKEWED)

    def disturbed(model, batch):
        if len(batch[0]) > 1:
            calls.append(1)
            clock.now += (4.0 if model.training else 1.0) + (50.0 if len(calls) % 7 in (0, 3) else 0.0)
        return go.squared_error(model, batch)

    advice = go.advise(model, dataset, losses=disturbed, clock=clock, batch_size=size)
    assert advice.step_seconds == 4.0
    assert {score.cost for score in advice.scores[1:]} == {0.25}


def test_a_machine_that_gets_slower_and_slower_slows_scores_and_steps_alike():
    """Fails where all steps are timed before all scores, or medians are divided instead of taken of quotients."""
    clock, calls = Clock(), []
    model, dataset = line(SKEWED)

    def slower(model, batch):
        if len(batch[0]) > 1:
            calls.append(1)
            clock.now += (4.0 if model.training else 1.0) * 1.01 ** len(calls)
        return go.squared_error(model, batch)

    advice = go.advise(model, dataset, losses=slower, clock=clock, batch_size=50)
    assert {score.name: score.cost for score in advice.scores[1:]} == pytest.approx(
        {"GradientNorm": 0.25 * 1.01, "Loss": 0.25 * 1.01**2, "LastLayerBound": 0.25 * 1.01**3}, rel=0.02
    )


def test_on_the_cpu_the_processor_is_timed_and_not_the_wall(monkeypatch):
    """What waits for its turn on a busy machine costs nothing."""
    clock = Clock()
    monkeypatch.setattr(time, "thread_time", clock)
    model, dataset = line(SKEWED)
    advice = go.advise(model, dataset, losses=timed_losses(clock, step=4.0, scoring=1.0), batch_size=50)
    assert advice.step_seconds == 4.0
    assert by_name(advice)["GradientNorm"].cost == 0.25


@pytest.mark.parametrize(("scoring", "verdict"), [(0.5, "likely"), (1.0, "unclear"), (8.0, "unlikely")])
def test_scores_that_are_slow_and_losses_that_know_nothing(scoring, verdict):
    """Every loss is the same, so that only the exact norms know, at their price."""
    clock = Clock()

    def losses(model, batch):
        clock.now += 1.0 if model.training else scoring
        inputs, scales = batch
        return 1 + scales * (model(inputs).squeeze(1))

    model, _ = line([0.0])
    dataset = TensorDataset(torch.ones(200, 1), torch.tensor([3.0] * 60 + [0.1] * 140))
    advice = go.advise(model, dataset, losses=losses, clock=clock, batch_size=50)
    assert by_name(advice)["remembered losses"].gain == pytest.approx(1)
    assert by_name(advice)["GradientNorm"].gain == pytest.approx(2.7, abs=0.15)
    assert advice.verdict == verdict
    assert advice.refused == ("LogitError",)


def test_numbers_are_those_of_the_reference_for_a_classifier():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))
    with torch.no_grad():
        model[0].weight *= 5
    batch = (torch.randn(40, 4), torch.arange(40) % 3)
    advice = go.advise(model, TensorDataset(*batch), batch_size=20, optimizer=torch.optim.AdamW)
    assert advice.refused == ()
    assert [s.name for s in advice.scores] == [
        "remembered losses",
        "GradientNorm",
        "Loss",
        "LastLayerBound",
        "LogitError",
    ]
    norms = reference.gradient_norms(model, batch).numpy()
    assert advice.variation == pytest.approx(norms.std() / norms.mean(), rel=1e-4)
    for score in (go.Loss(), go.LastLayerBound(), go.LogitError()):
        values = score(model, batch).numpy()
        expected = stats.spearmanr(values, norms).statistic
        assert by_name(advice)[type(score).__name__].rank_correlation == pytest.approx(expected, abs=0.01)
    assert by_name(advice)["GradientNorm"].rank_correlation == pytest.approx(1)
    assert all(score.cost > 0 for score in advice.scores[1:])


def test_a_model_without_a_linear_layer_has_no_last_layer_bound():
    model = nn.Sequential(nn.Conv1d(1, 3, 4), nn.Flatten())
    dataset = TensorDataset(torch.randn(20, 1, 4), torch.arange(20) % 3)
    advice = go.advise(model, dataset, batch_size=10)
    assert advice.refused == ("LastLayerBound",)
    assert "Not for this model or loss: LastLayerBound." in str(advice)


def test_dict_batches_and_a_collate_function():
    def collate(rows):
        return {"x": torch.stack([row[0] for row in rows]), "y": torch.stack([row[1] for row in rows])}

    def losses(model, batch):
        return go.squared_error(model, (batch["x"], batch["y"]))

    model, dataset = line([1.0, 2.0, 3.0, 4.0])
    advice = go.advise(model, dataset, losses=losses, batch_size=2, collate_fn=collate)
    assert advice.num_examples == 4


@pytest.mark.parametrize(
    ("batch_size", "probe_batches", "num", "size"),
    [(50, 8, 200, 50), (50, 3, 150, 50), (64, 8, 192, 64), (500, 2, 200, 200)],
)
def test_how_many_examples_are_probed(batch_size, probe_batches, num, size):
    advice = advised(SKEWED, batch_size=batch_size, probe_batches=probe_batches)
    assert (advice.num_examples, advice.batch_size) == (num, size)


def test_the_seed_chooses_the_examples_and_no_example_comes_twice():
    def variation(seed):
        return advised(np.arange(200.0), probe_batches=2, batch_size=25, seed=seed).variation

    assert variation(3) == variation(3)
    assert variation(3) != variation(4)
    whole = advised(np.arange(200.0), batch_size=25)
    assert whole.variation == pytest.approx(np.arange(200.0).std() / np.arange(200.0).mean(), rel=1e-5)


class Noisy(TensorDataset):
    """Augments with every random generator there is."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.01 * torch.rand(1) + 0.01 * random.random() + 0.01 * np.random.random(), y


@pytest.mark.parametrize("is_training", [True, False])
def test_leaves_everything_as_found(is_training):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)).train(is_training)
    model[1].eval()
    model[0].bias.requires_grad_(requires_grad=False)
    model[0].weight.grad = torch.ones(8, 4)

    def snapshot():
        return (
            {name: value.tolist() for name, value in model.state_dict().items()},
            [
                (id(p), p.requires_grad, id(p.grad), None if p.grad is None else p.grad.tolist())
                for p in model.parameters()
            ],
            [module.training for module in model.modules()],
            [len(module._forward_hooks) for module in model.modules()],
            torch.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),
            random.getstate(),
        )

    before = snapshot()
    dataset = Noisy(torch.randn(40, 4, generator=torch.Generator()), torch.arange(40) % 3)
    go.advise(model, dataset, batch_size=20)
    assert snapshot() == before

    def failing(model, batch):
        torch.rand(1)
        if not model.training:
            raise ZeroDivisionError
        return go.cross_entropy(model, batch)

    with pytest.raises(ZeroDivisionError):
        go.advise(model, dataset, batch_size=20, losses=failing)
    assert snapshot() == before


def test_training_is_timed_in_training_mode_on_a_copy():
    seen = set()
    model, dataset = line([1.0] * 8)
    model.eval()

    def losses(used, batch):
        seen.add((used is model, used.training, torch.is_grad_enabled()))
        return go.squared_error(used, batch)

    with torch.no_grad():
        go.advise(model, dataset, losses=losses, batch_size=4)
    assert (False, True, True) in seen
    assert (True, True, True) not in seen
    assert any(is_own for is_own, _, _ in seen)


def test_bad_losses_say_so():
    model, dataset = line([1.0, float("nan"), 2.0, 3.0])
    with pytest.raises(go.NonFiniteScoresError):
        go.advise(model, dataset, losses=go.squared_error, batch_size=4)
    with pytest.raises(ValueError, match="clock must go on"):
        go.advise(*line([1.0, 2.0]), losses=go.squared_error, batch_size=2, clock=lambda: 0.0)
    frozen, dataset = line([1.0, 2.0])
    with pytest.raises(ValueError, match="model must have a parameter to train"):
        go.advise(frozen.requires_grad_(requires_grad=False), dataset, losses=go.squared_error)


def test_an_optimizer_of_the_model_itself_is_refused():
    model = nn.Linear(4, 3)
    data = TensorDataset(torch.randn(8, 4), torch.arange(8) % 3)
    with pytest.raises(
        ValueError, match=r"optimizer must make an optimizer from a list.*got one of type SGD: the probe"
    ):
        go.advise(model, data, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
