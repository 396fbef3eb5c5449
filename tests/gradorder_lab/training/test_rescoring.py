"""The losses of skipped examples, which the training loop computes before the next epoch."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder_lab.data.examples import LabelledTensors
from gradorder_lab.training.method import Strategy
from gradorder_lab.training.network import NetworkRun, train_one_epoch

SIZE = 40


@dataclass(frozen=True, eq=False)
class FirstHalf(go.Ordering):
    """Skips the second half from epoch 1 on, and keeps the scores that it was given."""

    needs_scores: ClassVar[bool] = True
    given: list[torch.Tensor] = field(default_factory=list)

    def order(self, request):
        self.given.append(request.required_scores.clone())
        return go.Order(torch.arange(request.num_examples // 2))

    def start(self, request):
        return go.orderings.OrderingRun(self, prunes=True)


def model_of():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


@pytest.fixture
def run():
    generator = torch.Generator().manual_seed(1)
    examples = LabelledTensors(
        torch.randn(SIZE, 6, generator=generator), torch.randint(3, (SIZE,), generator=generator)
    )
    model, rule = model_of(), FirstHalf()
    sampler = go.OrderedSampler(SIZE, 10, ordering=rule)
    strategy = Strategy(sampler, remembers=True, rescores_skipped=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return NetworkRun(model, optimizer, strategy, lambda *_: 0.1, examples, {}), rule.given


def by_hand(run):
    """In eval mode, example by example."""
    run.model.eval()
    with torch.no_grad():
        losses = F.cross_entropy(run.model(run.train.inputs), run.train.labels, reduction="none")
    run.model.train()
    return losses


@pytest.fixture
def steps(monkeypatch):
    """The losses of the training steps, one dict per epoch."""
    found = []
    update, batches = NetworkRun.update, NetworkRun.batches

    def spied_batches(self, epoch):
        planned = batches(self, epoch)
        found.append({"left": list(planned)})
        return planned

    def spied_update(self, *arguments):
        logits, losses = update(self, *arguments)
        examples = found[-1]["left"].pop(0).tolist()
        found[-1].update(zip(examples, losses.tolist(), strict=True))
        return logits, losses

    monkeypatch.setattr(NetworkRun, "batches", spied_batches)
    monkeypatch.setattr(NetworkRun, "update", spied_update)
    return found


def test_scores_are_the_losses_of_the_steps_and_of_the_skipped_examples(run, steps):
    run, given = run
    train_one_epoch(run, 0)
    train_one_epoch(run, 1)
    assert given[0].tolist() == [steps[0][example] for example in range(SIZE)]
    assert run.cost.scored == 0  # the first epoch skipped none
    now = by_hand(run)
    train_one_epoch(run, 2)
    half = SIZE // 2
    assert given[1][:half].tolist() == [steps[1][example] for example in range(half)]
    assert given[1][half:].tolist() == pytest.approx(now[half:].tolist(), rel=1e-6)
    assert not torch.allclose(given[1][:half], now[:half])
    assert (run.cost.scored, run.cost.forward, run.cost.backward) == (20, 40 + 20 + 20 + 20, 40 + 20 + 20)
    assert 0 < run.cost.score_seconds < run.cost.seconds


def test_evaluation_leaves_the_model_as_it_is(run):
    run, _ = run
    train_one_epoch(run, 0)
    train_one_epoch(run, 1)
    run.model[3].eval()  # a part that the user keeps in eval mode
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    modes = [module.training for module in run.model.modules()]
    random = torch.get_rng_state()
    run.all_losses()
    assert run.cost.scored == SIZE // 2
    assert [module.training for module in run.model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_rescoring_needs_the_losses_of_the_steps():
    sampler = go.OrderedSampler(SIZE, 10, ordering=FirstHalf())
    with pytest.raises(ValueError, match="rescores_skipped needs remembers"):
        Strategy(sampler, rescores_skipped=True)
