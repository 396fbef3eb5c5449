"""A process killed under torchrun: the run goes on from the checkpoint to the same weights."""

import processes
import pytest
import restarted_training
import torch
from torchrun import torchrun

pytestmark = pytest.mark.slow


def test_killed_processes_are_restarted_and_end_with_the_same_weights(tmp_path):
    (tmp_path / "straight").mkdir()
    straight, _ = processes.run(restarted_training.train, 2, tmp_path / "straight")
    deaths = ["3", "6"]  # within the first epoch, and at its end
    result = torchrun(restarted_training.__file__, tmp_path, *deaths, max_restarts=2, timeout=180)
    assert result.returncode == 0, result.stderr
    restarted = torch.load(tmp_path / "final.pt", weights_only=True)
    assert (straight.pop("attempt"), restarted.pop("attempt")) == (0, 2)
    assert restarted.pop("step") == straight.pop("step") == 6 + 4 + 4
    for name, value in restarted.items():
        assert torch.equal(value, straight[name])
