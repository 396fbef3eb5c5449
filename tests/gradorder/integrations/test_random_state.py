"""The state of the global generators, on one and two processes."""

import random

import numpy as np
import processes
import pytest
import torch
import torch.distributed as dist

from gradorder.integrations.random_state import RandomState


def drawn():
    return random.random(), np.random.standard_normal(), torch.rand(2).tolist(), np.random.rand(), random.gauss(0, 1)


def test_every_global_generator_is_restored():
    random.gauss(0, 1)
    np.random.standard_normal()  # both keep a second number for the next call
    state = RandomState().state_dict()
    before = drawn()
    assert drawn() != before
    RandomState().load_state_dict(state)
    assert drawn() == before


def test_the_state_is_plain(tmp_path):
    torch.save(RandomState().state_dict(), tmp_path / "state")
    before = drawn()
    RandomState().load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert drawn() == before


def on_two_processes():
    torch.manual_seed(10 + dist.get_rank())
    if dist.get_rank() == 1:
        random.gauss(0, 1)  # its state is longer than that of rank 0
    state = RandomState().state_dict()
    before = drawn()
    RandomState().load_state_dict(state)
    again = drawn()
    RandomState().load_state_dict({"ranks": state["ranks"][:1]})  # saved by one process: rank 1 keeps its own
    return state, before, again, drawn()


@pytest.mark.slow
def test_every_rank_has_its_own_and_all_have_all():
    first, second = processes.run(on_two_processes, 2)
    assert first[0] == second[0]
    assert first[1] == first[2]
    assert second[1] == second[2]
    assert first[1] != second[1]
    assert first[3] == first[1]
    assert second[3] != second[1]
