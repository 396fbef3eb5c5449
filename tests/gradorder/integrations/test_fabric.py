"""Fabric on two processes: it counts epochs by itself, from 0 after every resume."""

from functools import cache

import processes
import pytest
import reference_run as reference
import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader

import gradorder as go
from gradorder.integrations.lightning import ordered_loader

processes.preload("lightning.fabric", "gradorder.integrations.lightning")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Lightning's own


def train(*, rescores, shields=True, state=None):
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    dataset, model = reference.data(), reference.new_model()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=reference.LR, momentum=0.9))
    sampler = go.OrderedSampler(dataset, reference.BATCH, **reference.SETTINGS)
    if shields:
        loader = ordered_loader(dataset, sampler)
    else:
        loader = DataLoader(dataset, sampler.loader_batch_size, sampler=sampler)
    loader = fabric.setup_dataloaders(loader)
    if state is not None:
        sampler.load_state_dict(state)
    score = go.GradientNorm(reference.losses)
    batches, states = [], []
    for epoch in range(sampler.epoch, reference.EPOCHS):
        sampler.set_epoch(epoch, scores=(lambda: go.score_dataset(model, dataset, score)) if rescores else None)
        for batch in loader:
            values = reference.losses(model, batch)
            optimizer.zero_grad()
            fabric.backward(values.mean() * sampler.loss_scale)
            optimizer.step()
            batches.append((epoch, batch[2].tolist()))
            sampler.step(None if rescores else values.detach())
            states.append(sampler.state_dict())
    return batches, states, [parameter.detach().clone() for parameter in model.parameters()]


def on_two_processes():
    results = {rescores: train(rescores=rescores) for rescores in (False, True)}
    straight, states, _ = results[False]
    # Weights start anew, so remembered scores do not: only the rest of the epoch can be compared.
    results["resumed"] = [(straight[7:10], train(rescores=False, state=states[6])[0][:3])]
    try:
        train(rescores=False, shields=False, state=states[6])
    except ValueError as error:
        results["refused"] = str(error)
    return results


@cache
def two_processes():
    return processes.run(on_two_processes, 2, timeout=120)


@pytest.mark.parametrize("rescores", [False, True])
def test_two_processes_train_on_the_batches_of_plain_torch(rescores):
    ranks = [rank[rescores] for rank in two_processes()]
    batches, weights = reference.train(rescores=rescores)
    assert reference.put_together([rank[0] for rank in ranks]) == batches
    for rank in ranks:
        torch.testing.assert_close(rank[2], weights, rtol=1e-9, atol=1e-12)


def test_resuming_goes_on_with_the_batches_that_were_left():
    for rank in two_processes():
        ((left, resumed),) = rank["resumed"]
        assert resumed == left


def test_without_the_loader_a_resume_raises_instead_of_starting_over():
    for rank in two_processes():
        assert "epoch must be at least 1" in rank["refused"]
