"""The loss of each example over its own tokens, against one example at a time without padding."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradorder as go

LENGTHS = [5, 2, 4]


def padded(side="right", ignored=-100):
    """Logits and labels of three examples of different length, and the examples by themselves."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 11, generator=generator, dtype=torch.float64)
    labels = torch.full((3, 5), ignored)
    parts = []
    for i, length in enumerate(LENGTHS):
        where = slice(0, length) if side == "right" else slice(5 - length, 5)
        labels[i, where] = torch.randint(11, (length,), generator=generator)
        parts.append((logits[i, where], labels[i, where]))
    return logits, labels, parts


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_mean_of_each_examples_own_tokens_whatever_is_padded(side):
    logits, labels, parts = padded(side)
    if side == "left":  # else padding would be asked for the first token: only the caller knows that it is the first
        labels[range(3), [5 - length for length in LENGTHS]] = -100
    expected = torch.stack([F.cross_entropy(z[:-1], y[1:]) for z, y in parts])
    torch.testing.assert_close(go.token_losses(logits, labels), expected)


def test_labels_that_stand_where_they_are_predicted():
    logits, labels, parts = padded()
    expected = torch.stack([F.cross_entropy(z, y) for z, y in parts])
    torch.testing.assert_close(go.token_losses(logits, labels, shift=False), expected)


def test_another_index_is_ignored():
    logits, labels, _ = padded()
    other = labels.where(labels != -100, 0) + (labels != -100)  # classes 1 to 11, and 0 for padding
    logits = torch.cat([torch.zeros(3, 5, 1, dtype=torch.float64), logits], dim=2)
    parts = [(z, y[:length]) for z, y, length in zip(logits, other, LENGTHS, strict=True)]
    expected = torch.stack([F.cross_entropy(z[: len(y) - 1], y[1:]) for z, y in parts])
    torch.testing.assert_close(go.token_losses(logits, other, 0), expected)


def test_an_example_without_labels_costs_nothing_and_teaches_nothing():
    logits, labels, _ = padded()
    labels[1] = -100
    logits.requires_grad_()
    losses = go.token_losses(logits, labels)
    losses.sum().backward()
    assert losses[1] == 0
    assert (logits.grad[1] == 0).all()
    assert logits.grad[[0, 2]].isfinite().all()
    assert (losses[[0, 2]] > 0).all()


def test_one_token_alone_has_nothing_that_predicts_it():
    assert go.token_losses(torch.randn(2, 1, 5), torch.zeros(2, 1, dtype=torch.int64)).tolist() == [0, 0]


def test_half_precision_is_summed_in_full():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3000, 50, generator=generator).bfloat16()
    labels = torch.randint(50, (2, 3000), generator=generator)
    losses = go.token_losses(logits, labels)
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, go.token_losses(logits.double(), labels).float(), rtol=1e-6, atol=0)


def test_without_gradients_half_precision_takes_the_memory_of_one_example():
    logits, labels = torch.zeros(16, 64, 1000, dtype=torch.bfloat16), torch.zeros(16, 64, dtype=torch.int64)
    with torch.profiler.profile(profile_memory=True) as profile:
        go.token_losses(logits, labels)
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert largest <= 64 * 1000 * 4  # one example's in float32; all sixteen would be 16 times that


@pytest.mark.parametrize(("logits", "labels"), [((2, 5), (2, 5)), ((2, 5, 7), (2, 4)), ((2, 5, 7), (10,))])
def test_shapes_are_checked(logits, labels):
    with pytest.raises(ValueError, match=r"logits.*logits"):
        go.token_losses(torch.zeros(logits), torch.zeros(labels, dtype=torch.int64))


def test_every_score_takes_them():
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7)).double()
    batch = {"tokens": torch.randint(7, (3, 5))}

    def losses(model, batch):
        return go.token_losses(model(batch["tokens"]), batch["tokens"])

    expected = go.per_example_gradients(model, batch, losses).norm(dim=1)
    torch.testing.assert_close(go.GradientNorm(losses)(model, batch), expected)
    torch.testing.assert_close(go.Loss(losses)(model, batch), losses(model, batch).detach())
    go.LastLayerBound(losses)(model, batch)
