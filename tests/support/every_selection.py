"""Makers of every selection of the library, on which the contract is tested: each takes further settings."""

import torch

import gradorder as go


def importance_sampling_that_draws(**settings):
    select = go.ImportanceSampling(3, **settings)
    select.observe(torch.tensor([1.0] + [0.0] * 99))
    return select


SELECTIONS = {
    "ImportanceSampling": importance_sampling_that_draws,
    "ImportanceSampling, off": lambda **settings: go.ImportanceSampling(3, **settings),
    "KeepHardest": lambda **settings: go.KeepHardest(0.5, **settings),
    "SelectiveBackprop": go.SelectiveBackprop,
    "SmallestLoss": lambda **settings: go.SmallestLoss(3, **settings),
    "TopLosses": lambda **settings: go.TopLosses(7, thresholds=(), fractions=(0.5,), **settings),
}
