"""DistributedDataParallel and FSDP with real processes: the losses and weights are those of one process."""

from functools import cache

import processes
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import gradorder as go

pytestmark = pytest.mark.slow

SIZE, BATCH, EPOCHS = 52, 12, 3  # the last batch has 4 examples: an uneven slice for 3 processes


def data():
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(SIZE, 6, generator=generator, dtype=torch.float64), torch.arange(SIZE) % 4)


def new_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 4)).double()


def wrapped(model, way):
    if way == "DDP":
        return DistributedDataParallel(model)
    if way == "FSDP":
        for layer in (model[0], model[3], model):
            fully_shard(layer)
    return model


def whole(parameter):
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


def trained(way, settings, score):
    """The sum of losses of each of this process's slices, and the final weights."""
    model = wrapped(new_model(), way)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    dataset = data()
    sampler = go.OrderedSampler(dataset, BATCH, ordering=go.Descending(), **settings)
    loader = DataLoader(dataset, sampler.loader_batch_size, sampler=sampler)
    slices = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(
            epoch,
            scores=None
            if score is None
            else lambda: go.score_dataset(model, dataset, score, batch_size=11),  # 5 batches: uneven
        )
        for inputs, targets in loader:
            losses = F.cross_entropy(model(inputs), targets, reduction="none")
            optimizer.zero_grad()
            (losses.mean() * sampler.loss_scale).backward()
            optimizer.step()
            slices.append((len(losses), losses.sum().item()))
            sampler.step(losses.detach())
    return slices, [whole(parameter).detach() for parameter in model.parameters()]


RUNS = {
    "remembered losses": ({"keep": 0.6}, None),
    "scored norms": ({}, go.GradientNorm()),
    "scored logits": ({"keep": 0.4, "layout": "dealt"}, go.LogitError()),
}


def train_all(way):
    runs = [run for run in RUNS if way != "FSDP" or run != "scored norms"]
    return {run: trained(way, *RUNS[run]) for run in runs}


# torch 2.6 can shard a model on the CPU, but not run it
FSDP = pytest.param(
    "FSDP",
    marks=pytest.mark.skipif(
        not hasattr(torch.cpu.Stream, "record_event"), reason="this torch cannot run a sharded model on the CPU"
    ),
)


@cache
def results(way, world):
    return processes.run(train_all, world, way)


@pytest.mark.parametrize(
    ("run", "way", "world"),
    [
        *((run, "DDP", world) for world in (2, 3) for run in RUNS),
        # scored norms are refused for a sharded model, see below
        *(pytest.param(run, "FSDP", 2, marks=FSDP.marks) for run in RUNS if run != "scored norms"),
    ],
)
def test_losses_and_weights_are_those_of_one_process(run, way, world):
    ranks = results(way, world)
    ((expected_slices, expected_weights),) = [result[run] for result in results("plain", 1)]
    for number, (size, total) in enumerate(expected_slices):
        parts = [rank[run][0][number] for rank in ranks]
        assert sum(part[0] for part in parts) == size
        assert sum(part[1] for part in parts) == pytest.approx(total, rel=1e-9)
    for rank in ranks:
        assert len(rank[run][0]) == len(expected_slices)
        for weight, expected in zip(rank[run][1], expected_weights, strict=True):
            torch.testing.assert_close(weight, expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------ norms from training


def observed(way):
    model = wrapped(new_model(), way)
    inputs, targets = data()[12 * dist.get_rank() : 12 * dist.get_rank() + 12]
    with go.observe_gradient_norms(model) as seen:
        losses = F.cross_entropy(model(inputs), targets, reduction="none")
        seen.losses(losses).mean().backward()
        norms = seen.norms
    gradients = [whole(parameter.grad).clone() for parameter in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(inputs), targets, reduction="none").mean().backward()
    plain = [whole(parameter.grad) for parameter in model.parameters()]
    assert all(torch.equal(gradient, other) for gradient, other in zip(gradients, plain, strict=True))
    return norms


@pytest.mark.parametrize("way", ["DDP", FSDP])
def test_observed_norms_are_those_of_one_process_and_the_gradients_stay_the_same(way):
    norms = torch.cat(processes.run(observed, 2, way))
    torch.testing.assert_close(norms, go.gradient_norms(new_model(), data()[:24]))


# ------------------------------------------------------------------------------------------------ selection


def selected():
    """Scores of a wrapped model between training steps: they must not wake the wrapper."""
    model = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(6, dtype=torch.float64), new_model()))
    batch = data()[12 * dist.get_rank() : 12 * dist.get_rank() + 12]
    kept, passes = {}, []
    model.register_forward_pre_hook(lambda *_: passes.append(1))
    for score in (go.GradientNorm(), go.LastLayerBound(), go.Loss(), go.LogitError()):
        model.module[0].eval()
        if dist.get_rank() == 1:  # one process alone: nothing is exchanged
            kept[score] = [go.KeepHardest(keep, score)(model, batch)[0] for keep in (0.25, 6)]
            score(model, batch)
            go.per_example_gradients(model, batch)
            assert not passes
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        passes.clear()
    try:
        go.KeepHardest(5)(model, batch)
    except ValueError as error:
        return list(kept.values()), batch[0], str(error)
    return None


def test_each_process_keeps_the_hardest_of_its_slice():
    (_, _, other_error), (kept, inputs, error) = processes.run(selected, 2)
    assert error == other_error
    assert "keep" in error
    model = nn.Sequential(nn.BatchNorm1d(6, dtype=torch.float64), new_model()).eval()
    assert len(kept) == 4
    for a_quarter, three in kept:
        assert len(a_quarter) == len(three) == 3
    order = go.gradient_norms(model, (inputs, data()[12:24][1])).argsort(descending=True)
    assert torch.equal(kept[0][0], inputs[order[:3]])


# ------------------------------------------------------------------------------------------------ what FSDP cannot do


def refused(way):
    model = new_model()
    model = (
        FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
        if way == "flat"
        else wrapped(model, way)
    )
    batch = data()[:12]
    messages = []
    for action in (
        lambda: go.gradient_norms(model, batch),
        lambda: go.score_dataset(model, data(), go.GradientNorm()),
        lambda: go.KeepHardest(0.5)(model, batch),
        lambda: go.LastLayerBound()(model, batch),
        lambda: go.per_example_gradients(model, batch),
        lambda: go.observe_gradient_norms(model).__enter__(),
    ):
        try:
            action()
        except ValueError as error:
            messages.append(str(error))
    return messages


@pytest.mark.parametrize(("way", "num_refused"), [("FSDP", 5), ("flat", 6)])
def test_what_a_sharded_model_cannot_do_is_said(way, num_refused):
    for messages in processes.run(refused, 2, way):
        assert len(messages) == num_refused
        assert all("LogitError" in message for message in messages[:5])
        assert all("fully_shard" in message for message in messages[5:])
