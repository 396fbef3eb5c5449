"""A process killed under torchrun: the run goes on from the checkpoint to the same weights."""

import os
import subprocess
import sys

import processes
import restarted_training
import torch


def test_killed_processes_are_restarted_and_end_with_the_same_weights(tmp_path):
    (tmp_path / "straight").mkdir()
    straight, _ = processes.run(restarted_training.train, 2, tmp_path / "straight")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": os.pathsep.join(sys.path),
        # Without this torchrun may hand the addresses of the dead processes to their successors.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    deaths = ["3", "6"]  # within the first epoch, and at its end
    subprocess.run(
        [*command, "--monitor-interval=0.2", restarted_training.__file__, tmp_path, *deaths],
        env=environment,
        timeout=180,
        check=True,
        capture_output=True,
    )
    restarted = torch.load(tmp_path / "final.pt", weights_only=True)
    assert (straight.pop("attempt"), restarted.pop("attempt")) == (0, 2)
    assert restarted.pop("step") == straight.pop("step") == 6 + 4 + 4
    for name, value in restarted.items():
        assert torch.equal(value, straight[name])
