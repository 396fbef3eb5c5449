import math

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import gradorder as go
from gradorder.diagnostics.advice import Share


class Logits(nn.Module):
    """The inputs are the logits."""

    def forward(self, inputs):
        return inputs


def dataset_with(losses, num_classes=4):
    """Examples whose cross-entropies are these, with labels in turn."""
    labels = torch.arange(len(losses)) % num_classes
    probabilities = torch.exp(-torch.tensor(losses, dtype=torch.float64))
    others = (1 - probabilities) / (num_classes - 1)
    table = others[:, None].repeat(1, num_classes)
    table[torch.arange(len(losses)), labels] = probabilities
    return TensorDataset(table.log().float(), labels)


LOSSES = [0.01] * 600 + [0.6] * 300 + [3.0] * 100


def test_the_share_is_that_of_the_rule_of_the_default():
    advice = go.advise(Logits(), dataset_with(LOSSES))
    assert advice.num_examples == 1000
    assert advice.skipped.value == pytest.approx(0.75 * 0.6)
    assert advice.skipped.low == advice.skipped.high  # every example was looked at
    sampler = go.recommended(1000, 100, epochs=5)
    sampler.set_epoch(1, scores=torch.tensor(LOSSES))
    assert sampler.summary().visited[1] == pytest.approx(1000 * (1 - advice.skipped.value), abs=30)


def test_a_sample_has_an_interval_that_holds_the_share():
    held = 0
    for seed in range(40):
        skipped = go.advise(Logits(), dataset_with(LOSSES), num_examples=200, seed=seed).skipped
        assert 0 < skipped.high - skipped.low < 0.15
        held += skipped.low <= 0.45 <= skipped.high
    assert held >= 35


def test_the_interval_holds_the_share_also_if_few_examples_have_most_of_the_loss():
    """Then the mean of a sample, and with it the bound of the rule, is uncertain."""
    losses = torch.exp(2 * torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    dataset = TensorDataset(losses, torch.zeros(4000))
    exact = 0.75 * float((losses < losses.mean() / 4).double().mean())
    held = 0
    for seed in range(60):
        settings = {"losses": lambda model, batch: model(batch[0]), "num_examples": 200, "seed": seed}
        skipped = go.advise(Logits(), dataset, **settings).skipped
        assert skipped.low < skipped.value < skipped.high
        held += skipped.low <= exact <= skipped.high
    assert held >= 54


def test_labels_that_look_wrong():
    assert go.advise(Logits(), dataset_with(LOSSES)).mislabelled.value == pytest.approx(0.1)
    untrained = dataset_with([math.log(4)] * 1000)
    assert go.advise(Logits(), untrained).mislabelled is None
    assert go.advise(Logits(), dataset_with(LOSSES), labels=None).mislabelled is None
    own = go.advise(Logits(), dataset_with(LOSSES), losses=go.cross_entropy)
    assert own.mislabelled is None  # losses of one's own may have another unit


def test_it_says_by_which_labels_batches_are_stratified():
    advice = go.advise(Logits(), dataset_with(LOSSES))
    assert advice.classes == 4
    assert "second column" in str(advice)
    assert go.advise(Logits(), dataset_with(LOSSES), labels=None).classes is None


def test_nothing_is_skipped_if_nothing_is_fitted():
    assert go.advise(Logits(), dataset_with([1.0] * 100)).skipped.value == 0


@pytest.mark.parametrize(("count", "total"), [(0, 10), (10, 10), (3, 10), (500, 1000)])
def test_an_interval_is_wilsons(count, total):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(count, total).proportion_ci(method="wilson")
    share = Share.of(count, total, population=10**6)
    assert (share.low, share.high) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_the_tasks_alike_skip_a_similar_share():
    advice = go.advise(Logits(), dataset_with(LOSSES))
    distances = [abs(task.skipped - advice.skipped.value) for task in advice.alike]
    assert distances == sorted(distances)
    assert all(task.name in str(advice) for task in advice.alike)
