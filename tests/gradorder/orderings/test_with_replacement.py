import pytest
import torch

import gradorder as go


def draws(seed, size=1000):
    generator = torch.Generator().manual_seed(seed)
    return go.WithReplacement()(None, epoch=0, generator=generator, num_examples=size)


def test_draws_are_uniform_and_independent():
    drawn = torch.stack([draws(seed, 4) for seed in range(4000)])
    for place in drawn.T:
        assert (torch.bincount(place, minlength=4) - 1000).abs().max() < 5 * 28  # five standard deviations
    pairs = torch.bincount(4 * drawn[:, 0] + drawn[:, 1], minlength=16)
    assert (pairs - 250).abs().max() < 5 * 15.4


def test_about_37_percent_are_left_out():
    left_out = [1000 - len(set(draws(seed).tolist())) for seed in range(20)]
    assert abs(sum(left_out) / 20 - 367.7) < 5 * 9.8 / 20**0.5


def test_no_labels_no_keep_no_reversal():
    for settings in ({"labels": [0] * 10}, {"keep": 0.5}):
        with pytest.raises(ValueError, match="labels and keep"):
            go.OrderedSampler(10, 4, ordering=go.WithReplacement(), **settings)
    with pytest.raises(ValueError, match="inner"):
        go.Revisiting(go.WithReplacement())
