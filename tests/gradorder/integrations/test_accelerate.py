"""Accelerate on two processes: `prepare` neither cuts the slices again nor repeats an example."""

from functools import cache

import processes
import pytest
import reference_run as reference
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DataLoaderConfiguration

import gradorder as go
from gradorder.integrations.accelerate import ordered_loader

processes.preload("gradorder.integrations.accelerate")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # accelerate's own


def new_accelerator(*, split_batches=False, **settings):
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    return Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=split_batches), **settings)


class Run:
    def __init__(self, *, split_batches=False, state=None, **settings):
        self.accelerator = new_accelerator(split_batches=split_batches, **settings)
        self.data, model = reference.data(), reference.new_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=reference.LR, momentum=0.9)
        self.sampler = go.OrderedSampler(self.data, reference.BATCH, **reference.SETTINGS)
        loader = ordered_loader(self.accelerator, self.data, self.sampler)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)
        assert self.loader is loader
        if state is not None:
            self.sampler.load_state_dict(state["sampler"])
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])

    def state(self):
        parts = {"sampler": self.sampler, "model": self.model, "optimizer": self.optimizer}
        copied = {name: part.state_dict() for name, part in parts.items()}
        return torch.utils._pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, copied)

    def train(self, *, rescores):
        batches, states, num_updates, gathered = [], [], 0, []
        score = go.GradientNorm(reference.losses)
        for epoch in range(self.sampler.epoch, reference.EPOCHS):
            self.sampler.set_epoch(
                epoch, scores=(lambda: go.score_dataset(self.model, self.data, score)) if rescores else None
            )
            for batch in self.loader:
                with self.accelerator.accumulate(self.model):
                    values = reference.losses(self.model, batch)
                    self.accelerator.backward(values.mean() * self.sampler.loss_scale)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    num_updates += self.accelerator.sync_gradients
                batches.append((epoch, batch[2].tolist()))
                if epoch > 0:  # all slices are even
                    gathered.append((epoch, self.accelerator.gather_for_metrics(batch[2]).tolist()))
                self.sampler.step(None if rescores else values.detach())
                states.append(self.state())
        return (
            batches,
            states,
            [parameter.detach().clone() for parameter in self.model.parameters()],
            num_updates,
            gathered,
        )


def on_two_processes():
    results = {}
    for split_batches in (False, True):
        for rescores in (False, True):
            results[split_batches, rescores] = Run(split_batches=split_batches).train(rescores=rescores)
    straight, states, weights, *_ = results[False, False]
    for step in (3, 6, 8):
        resumed = Run(state=states[step - 1]).train(rescores=False)
        is_same = all(torch.equal(a, b) for a, b in zip(resumed[2], weights, strict=True))
        results["resumed", step] = straight[step:], resumed[0], is_same
    results["updates"] = Run(gradient_accumulation_steps=4).train(rescores=False)[3]
    alone = go.OrderedSampler(reference.data(), reference.BATCH, ordering=go.Descending(), num_replicas=1)
    try:
        ordered_loader(new_accelerator(), reference.data(), alone)
    except ValueError as error:
        results["refused"] = str(error)
    return results


@cache
def two_processes():
    return processes.run(on_two_processes, 2, timeout=150)


@pytest.mark.parametrize("split_batches", [False, True])
@pytest.mark.parametrize("rescores", [False, True])
def test_two_processes_train_on_the_batches_of_plain_torch(split_batches, rescores):
    ranks = [rank[split_batches, rescores] for rank in two_processes()]
    batches, weights = reference.train(rescores=rescores)
    assert reference.put_together([rank[0] for rank in ranks]) == batches
    complete = sum((batch for epoch, batch in batches if epoch == 0), [])
    assert sorted(complete) == list(range(reference.SIZE))  # nothing repeated, nothing lost
    for rank in ranks:
        torch.testing.assert_close(rank[2], weights, rtol=1e-9, atol=1e-12)
        assert rank[4] == [batch for batch in batches if batch[0] > 0]  # gathered results are neither padded nor cut


@pytest.mark.parametrize("step", [3, 6, 8])
def test_resuming_at_a_later_epoch_although_accelerate_counts_from_0(step):
    for rank in two_processes():
        left, resumed, is_same = rank["resumed", step]
        assert resumed == left
        assert is_same


def test_accumulation_steps_at_the_end_of_every_epoch():
    assert [rank["updates"] for rank in two_processes()] == [2 + 1 + 1 + 1] * 2


def test_a_sampler_for_another_number_of_processes_is_refused():
    for rank in two_processes():
        assert "built for the accelerator's 2 processes, got one for 1" in rank["refused"]
