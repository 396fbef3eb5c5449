"""A score leaves the model exactly as found; every score is listed here."""

import random
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import gradorder as go
from gradorder.norms import reference


def importance_sampling(model, batch):
    """Told that the scores differ widely, so that it scores and draws."""
    select = go.ImportanceSampling(2)
    select.observe(torch.tensor([1.0] + [0.0] * 99))
    return select.weighted(model, batch)[0]


def selective_backprop(model, batch):
    return go.SelectiveBackprop()(model, batch)  # a new one each time: the same random numbers


SELECTIONS = {
    "KeepHardest": go.KeepHardest(0.5),
    "SmallestLoss": go.SmallestLoss(2),
    "TopLosses": go.TopLosses(6),
    "SelectiveBackprop": selective_backprop,
    "ImportanceSampling": importance_sampling,
    "ImportanceSampling, off": lambda model, batch: go.ImportanceSampling(2).weighted(model, batch)[0],
}
SCORES = {
    "GradientNorm": go.GradientNorm(),
    "per_example_gradients": go.per_example_gradients,
    "reference": reference.gradient_norms,
    "LastLayerBound": go.LastLayerBound(),
    "LogitError": go.LogitError(),
    "Loss": go.Loss(),
    "score_dataset": lambda model, batch: go.score_dataset(model, TensorDataset(*batch), go.Loss()),
} | SELECTIONS
every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES.keys())


class Counting(nn.Module):
    """A module that misbehaves: it changes its buffers even in eval mode, and draws random numbers."""

    def __init__(self, *, fails=False):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(2))
        self.fails = fails

    def forward(self, x):
        if torch._C._functorch.maybe_current_level() is None:  # in-place updates cannot be vectorised
            self.calls += 1
        self.last = torch.ones(2)
        np.random.rand()
        random.random()
        torch.rand(1, generator=None) if torch._C._functorch.maybe_current_level() is None else None
        if self.fails:
            raise ZeroDivisionError
        return x


def make_model(**settings):
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), Counting(**settings), nn.Linear(8, 3)
    )
    model.train()
    model[1].eval()  # a mixed state
    model[0].bias.requires_grad_(requires_grad=False)
    model[0].weight.grad = torch.randn(8, 4)
    model[5].register_forward_hook(lambda module, args, output: None)
    return model


def snapshot(model):
    return {
        "modes": [module.training for module in model.modules()],
        "buffers": [(name, id(buffer), buffer.clone().tolist()) for name, buffer in model.named_buffers()],
        "values": [parameter.detach().clone().tolist() for parameter in model.parameters()],
        "grads": [(id(p.grad), None if p.grad is None else p.grad.tolist()) for p in model.parameters()],
        "flags": [(id(p), p.requires_grad) for p in model.parameters()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks)) for m in model.modules()],
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
        "grad mode": torch.is_grad_enabled(),
    }


BATCH = (torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1, 2]))


@every_score
def test_leaves_everything_as_found(score):
    model = make_model()
    before = snapshot(model)
    score(model, BATCH)
    assert snapshot(model) == before


@every_score
def test_leaves_everything_as_found_when_an_exception_passes_through(score):
    model = make_model(fails=True)
    before = snapshot(model)
    with pytest.raises(ZeroDivisionError):
        score(model, BATCH)
    assert snapshot(model) == before


@every_score
def test_sees_the_model_in_eval_mode(score):
    """Dropout and batch statistics would make the score of an example depend on chance or on its neighbours."""
    model = make_model().train()
    first, again = score(model, BATCH), score(model, BATCH)
    flat = [torch.cat([t.flatten().float() for t in out]) if isinstance(out, tuple) else out for out in (first, again)]
    torch.testing.assert_close(flat[0], flat[1], rtol=0, atol=0)
    if score not in SELECTIONS.values():
        alone = score(model, (BATCH[0][:1], BATCH[1][:1]))
        torch.testing.assert_close(alone, first[:1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("score", [go.GradientNorm(), go.LastLayerBound(), go.LogitError(), go.Loss()], ids=str)
def test_one_float_per_example(score):
    model = make_model()
    scores = score(model, BATCH)
    assert scores.shape == (6,)
    assert scores.dtype == torch.float32
    assert score(model.double(), (BATCH[0].double(), BATCH[1])).dtype == torch.float64


class Words(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4, **settings), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.table(x.abs().long() % 9).mean(1))


@every_score
def test_embeddings_with_a_largest_norm_keep_their_weights(score):
    model = Words(max_norm=0.1)
    before = snapshot(model)
    score(model, BATCH)
    assert snapshot(model) == before


@every_score
def test_lazy_models_are_refused_and_stay_lazy(score):
    model = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.Linear(8, 3))
    with pytest.raises(ValueError, match="LazyLinear"):
        score(model, BATCH)
    assert type(model[0]) is nn.LazyLinear


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("name", ["OptimizedModule", "_FabricModule", "FullyShardedDataParallel"])
def test_a_users_class_with_the_name_of_a_wrapper_is_no_wrapper(name):
    model, batch = type(name, (Wrapped,), {})(), (torch.randn(5, 4), torch.arange(5) % 3)
    torch.testing.assert_close(go.gradient_norms(model, batch), reference.gradient_norms(model, batch))
    assert go.LastLayerBound()(model, batch).shape == (5,)


def test_one_model_in_two_threads():
    """Scores wait for each other: each sees the model in eval mode, and it is left in training mode."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.Tanh(), nn.BatchNorm1d(32), nn.Linear(32, 3))
    batch = (torch.randn(6, 4), torch.arange(6) % 3)
    scores = [go.gradient_norms, go.LastLayerBound(), go.per_example_gradients]
    expected = [score(model, batch) for score in scores]
    wrong = []

    def run():
        for _ in range(10):
            for score, right in zip(scores, expected, strict=True):
                try:
                    if not torch.equal(score(model, batch), right):
                        wrong.append(score)
                except BaseException as error:  # noqa: BLE001 - it would be lost in the thread
                    wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(module.training for module in model.modules())
