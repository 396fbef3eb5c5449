"""`step` never waits for an accelerator: it reads no value and copies nothing between the devices."""

import pytest
import torch
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map

import gradorder as go
from gradorder.sampler import memory

aten = torch.ops.aten
WAITS = {
    aten._local_scalar_dense,  # item(), float(), bool(), int(), tolist()
    aten.nonzero,  # boolean indices, too
    aten.masked_select,
    aten.equal,
    aten.is_nonzero,
    aten.unique_dim,
    aten._unique2,
    aten.allclose,
}


class OnDevice(torch.Tensor):
    """A tensor that says it lives on an accelerator, and notes every operation that would make the host wait."""

    waits: list  # of the running test

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype, device="meta")

    def __init__(self, values):
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        packet = function.overloadpacket
        device = kwargs.get("device")
        if packet is aten.index and any(each is not None and each.dtype == torch.bool for each in args[1]):
            cls.waits.append("a boolean index")
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        is_mixed = any(isinstance(leaf, torch.Tensor) and not isinstance(leaf, cls) and leaf.ndim for leaf in leaves)
        to_host = packet is aten._to_copy and device is not None and torch.device(device).type == "cpu"
        if packet in WAITS or to_host or is_mixed:
            cls.waits.append(str(function))
        plain = tree_map(lambda each: each.values if isinstance(each, cls) else each, (args, kwargs))
        if device is not None:
            plain[1]["device"] = "cpu"
        result = function(*plain[0], **plain[1])
        if packet is aten._local_scalar_dense or to_host:
            return result
        wrapped = tree_map(lambda each: cls(each) if isinstance(each, torch.Tensor) else each, result)
        return return_and_correct_aliasing(function, args, kwargs, wrapped)


@pytest.fixture
def waits():
    OnDevice.waits = []
    return OnDevice.waits


@pytest.mark.parametrize(
    "wait",
    [
        lambda losses: losses.mean().item(),
        lambda losses: losses.cpu(),
        lambda losses: losses.to("cpu"),
        lambda losses: losses[losses > 0.5],
        lambda losses: bool(losses.isfinite().all()),
        lambda losses: losses.nonzero(),
        lambda losses: float(losses[0]),
        lambda losses: losses[torch.tensor([0, 1])],
    ],
)
def test_a_wait_is_noticed(wait, waits):
    wait(OnDevice(torch.rand(8)))
    assert len(waits) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("records_history", [False, True])
def test_no_step_waits(dtype, records_history, waits, monkeypatch):
    monkeypatch.setattr(memory, "_MAX_PENDING", 7)  # so that pending batches are merged during an epoch
    sampler = go.recommended(400, 10, epochs=3)
    if records_history:
        sampler.record_history()
    losses = torch.rand(400, generator=torch.Generator().manual_seed(0)) ** 6
    lengths = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        lengths.append(len(sampler))
        waits.clear()
        for batch in sampler.loader():
            sampler.step(OnDevice(losses[batch].to(dtype)).detach())
        assert waits == []
    assert lengths[2] < 300  # the losses did arrive


def test_steps_with_weights_margins_and_a_learning_rate_do_not_wait(waits):
    sampler = go.OrderedSampler(100, 10, ordering=go.InfoBatch(3), start_epoch=1, epochs=3)
    sampler.record_history()
    scheduler = go.ProgressLR(torch.optim.SGD([torch.zeros(1)], lr=1.0), sampler)
    scheduler.optimizer.step()
    for _ in sampler.loader():
        losses = OnDevice(torch.rand(10))
        sampler.step(losses, margins=losses)
        scheduler.step()
    assert waits == []
