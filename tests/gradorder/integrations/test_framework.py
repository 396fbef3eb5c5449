"""What all plug-ins share: datasets that differ between ranks, and loaders that leave the global generator alone."""

import processes
import pytest
import torch
import torch.distributed as dist
from accelerate import Accelerator

import gradorder as go
from gradorder.errors import RankError
from gradorder.integrations import accelerate, lightning

processes.preload("gradorder.integrations.accelerate", "gradorder.integrations.lightning")


def on_two_processes():
    """The dataset of rank 1 is shorter."""
    data = torch.arange(12 - 2 * dist.get_rank())
    sampler, said = go.OrderedSampler(data, 4, ordering=go.Shuffled()), []
    accelerator = Accelerator(cpu=True)
    for build in (lightning.ordered_loader, lambda *given: accelerate.ordered_loader(accelerator, *given)):
        try:
            build(data, sampler)
        except RankError as error:
            said.append(str(error))
    return said


@pytest.mark.slow
def test_another_dataset_on_one_rank_is_named_with_both_lengths():
    for rank in processes.run(on_two_processes, 2):
        assert len(rank) == 2
        for message in rank:
            assert "num_examples is 12 on rank 0, 10 on rank 1" in message
            assert "Load all of it on every process" in message


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("framework", ["accelerate", "fabric"])
def test_a_loader_draws_nothing_from_the_global_generator(framework, num_workers):
    sampler = go.OrderedSampler(12, 4, ordering=go.Shuffled())
    first = (Accelerator(cpu=True),) if framework == "accelerate" else ()
    build = accelerate.ordered_loader if framework == "accelerate" else lightning.ordered_loader
    loader = build(*first, torch.arange(12), sampler, num_workers=num_workers)
    state = torch.get_rng_state()
    assert len(list(loader)) == 3
    assert torch.equal(torch.get_rng_state(), state)
