"""Interrupted after any step and resumed from the sampler's own state: the same batches, scores and weights."""

import itertools
import math

import pytest
import torch
from states import saved_and_loaded
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import gradorder as go

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata 0.11 calls it

SIZE, BATCH, EPOCHS = 18, 4, 3  # 5 batches in the first epoch, 3 in the others
SETTINGS = {"ordering": go.PlackettLuce(), "keep": 0.6, "start_epoch": 1}
WORKERS = {"no workers": {}, "persistent workers": {"num_workers": 2, "persistent_workers": True}}
EVERY = {name: pytest.param(name, marks=pytest.mark.slow if given else ()) for name, given in WORKERS.items()}


def score(epoch, batch):
    return torch.tensor([math.sin(7 * i + epoch) + 2 for i in batch])


class Run:
    """A sampler and the loader around it."""

    def __init__(self, make_loader, workers, state=None):
        self.sampler = go.OrderedSampler(SIZE, BATCH, **SETTINGS)
        self.loader = make_loader(range(SIZE), self.sampler.loader_batch_size, sampler=self.sampler, **workers)
        if state is not None:
            self.sampler.load_state_dict(saved_and_loaded(state))

    def train(self):
        """The batches that are left, and the state after each."""
        batches, states = [], []
        for epoch in range(self.sampler.epoch, EPOCHS):
            self.sampler.set_epoch(epoch)
            for batch in self.loader:
                batches.append((epoch, batch.tolist()))
                self.sampler.step(score(epoch, batch.tolist()))
                states.append(self.sampler.state_dict())
        return batches, states


@pytest.mark.parametrize("workers", EVERY.values())
@pytest.mark.parametrize("make_loader", [DataLoader, StatefulDataLoader])
def test_the_batches_that_were_left_after_any_step(make_loader, workers):
    straight, states = Run(make_loader, WORKERS[workers]).train()
    assert [epoch for epoch, _ in straight] == [0] * 5 + [1] * 3 + [2] * 3
    for step, state in enumerate(states, 1):
        assert Run(make_loader, WORKERS[workers], state).train()[0] == straight[step:], f"stopped after {step}"
    first = go.OrderedSampler(SIZE, BATCH, **SETTINGS).state_dict()
    assert Run(make_loader, WORKERS[workers], first).train()[0] == straight


def test_an_iterator_thrown_away_keeps_the_place():
    """A stateful loader with workers makes two iterators and uses the second."""
    straight, states = Run(DataLoader, {}).train()
    sampler = go.OrderedSampler(SIZE, BATCH, **SETTINGS)
    sampler.load_state_dict(states[1])
    iter(sampler)
    assert list(sampler) == sum((batch for epoch, batch in straight[2:5]), [])


def test_an_iterator_of_an_earlier_plan_does_not_count_for_the_current_one():
    sampler = go.OrderedSampler(SIZE, BATCH, ordering=go.Descending())
    late = iter(sampler)
    first_plan = list(sampler)
    sampler.set_epoch(1)
    assert list(late) == first_plan
    with pytest.raises(go.StepError, match="0 batches"):
        sampler.step()


# ------------------------------------------------------------------------------------------------ looking

LOOKED_AT = 60  # 15 batches


def looked_at(state=None):
    sampler = go.OrderedSampler(LOOKED_AT, BATCH, ordering=go.Descending(), start_epoch=1, epochs=4)
    if state is not None:
        sampler.load_state_dict(saved_and_loaded(state))
    return sampler


def use(sampler, loader, num_steps=None):
    used = []
    for batch in loader:
        used.append(batch.tolist())
        sampler.step(batch.float())
        if len(used) == num_steps:
            break
    return used


@pytest.mark.parametrize(
    ("num_workers", "num_steps", "own"),
    [
        *itertools.product([0, 2], [7, 13], [True]),
        *itertools.product([0, 2], [7], [False]),  # 13: two workers would fetch all that is left, as if it were used
    ],
)
def test_a_look_after_the_resume_keeps_the_place(num_workers, num_steps, own):
    sampler = looked_at()
    first = use(sampler, sampler.loader(), num_steps)
    resumed = looked_at(sampler.state_dict())
    loader = resumed.loader(num_workers=num_workers)
    if not own:
        loader = DataLoader(range(LOOKED_AT), BATCH, sampler=resumed, num_workers=num_workers)
    for _ in range(2):
        next(iter(loader))
        assert (resumed.steps_left, resumed.state_dict()["consumed"]) == (15 - num_steps, num_steps)
    resumed.set_epoch(resumed.epoch)
    assert first + use(resumed, loader) == [batch.tolist() for batch in looked_at().loader()]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_pass_over_a_finished_epoch_keeps_the_place(num_workers):
    """For the accuracy on the training set, say."""
    sampler = looked_at()
    loader = sampler.loader(num_workers=num_workers)
    use(sampler, loader)
    list(loader)
    next(iter(loader))
    assert (sampler.steps_left, sampler.progress, sampler.state_dict()["consumed"]) == (0, 0.25, 15)
    sampler.set_epoch(0, scores=lambda: pytest.fail("the epoch was trained on"))
    resumed = looked_at(sampler.state_dict())
    assert list(resumed) == []
    resumed.set_epoch(1)
    assert list(resumed) == list(range(LOOKED_AT))[::-1]


def test_what_was_passed_over_after_a_resume_is_said_to_be_trained_on_again():
    sampler = looked_at()
    use(sampler, sampler.loader(), 7)
    resumed = looked_at(sampler.state_dict())
    assert len(list(resumed.loader())) == 8  # to its end: the next one starts at the first batch
    with pytest.warns(UserWarning, match=r"epoch 0.*again"):
        assert len(use(resumed, resumed.loader())) == 15


def test_a_pass_over_a_finished_epoch_does_not_unlearn_it():
    def after_one_epoch(*, looks):
        sampler = go.OrderedSampler(8, 4, ordering=go.GradientBalancing())
        rows = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
        for batch in sampler.loader():
            sampler.step(gradients=rows[batch])
        if looks:
            list(sampler)
        sampler.set_epoch(1)
        return list(sampler)

    assert after_one_epoch(looks=True) == after_one_epoch(looks=False)
