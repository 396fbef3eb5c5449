"""A device that is not there is refused in one line, and an accelerator is named in the rows."""

import pytest
import torch

from gradorder_lab import cli
from gradorder_lab.benchmark.task import Task
from gradorder_lab.cli import DeviceName
from gradorder_lab.commands import benchmark, compare, reproduce
from gradorder_lab.errors import LabError
from gradorder_lab.runs.device import check_device, device_name


@pytest.fixture
def with_cuda(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")


@pytest.fixture
def without_accelerator(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)


def test_the_accelerator_is_named(with_cuda):
    check_device("cuda")
    assert device_name("cuda") == "cuda: Some GPU"
    with pytest.raises(LabError, match=r"--device mps: .* Use --device cpu or cuda"):
        check_device("mps")


@pytest.mark.parametrize(
    "start",
    [
        lambda out: benchmark.benchmark(benchmark.BenchmarkRequest(device="cuda"), out),
        lambda out: compare.compare(compare.ComparisonRequest(Task("a", "b", "c", 1), device="cuda"), out),
        lambda out: reproduce.reproduce([], out, reproduce.Reproduction(device="cuda")),
    ],
)
def test_every_command_refuses_a_device_that_is_not_there(start, without_accelerator, tmp_path):
    check_device("cpu")
    with pytest.raises(LabError, match=r"--device cuda: .* Use --device cpu"):
        start(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_one_run_at_a_time_on_a_gpu_and_one_per_core_otherwise(monkeypatch):
    monkeypatch.setattr(cli, "_CORES", 12)
    assert [cli._processes(None, device) for device in (DeviceName.cpu, DeviceName.cuda)] == [12, 1]
    assert cli._processes(3, DeviceName.cuda) == 3
