"""`gradorder compare` at its edges: no network, Ctrl-C."""

import sys

import pytest
import torch
from trainings import split_of

from gradorder_lab import cli
from gradorder_lab import data as data_sets
from gradorder_lab.benchmark.task import Task
from gradorder_lab.commands import compare as command
from gradorder_lab.data import download, loading
from gradorder_lab.data.files import DATA_VARIABLE
from gradorder_lab.errors import DatasetNotFoundError


@pytest.fixture
def offline(monkeypatch, tmp_path):
    def refused(*_):
        raise download.DownloadError("no network")

    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(loading, "fetch", refused)
    monkeypatch.setattr(loading, "cache_dir", lambda: tmp_path)


def test_without_a_network_the_shipped_part_is_used_and_it_says_so(offline, tmp_path, capsys):
    asked = command.ComparisonRequest(Task("mnist, 2-layer", "mnist", "2-layer", 1, 500), probe_only=True)
    command.compare(asked, tmp_path / "out")
    told = " ".join(capsys.readouterr().out.split())
    assert "5,000 examples" in told
    assert "A probe of mnist-mini, 2-layer" in told


def test_the_shipped_part_is_a_task_of_its_own_and_its_examples_are_those_of_the_package(offline):
    split = split_of(Task("t", "mnist-mini", "2-layer", 1))
    train, test = data_sets.load("mnist", size="mini", download=False)
    assert (len(split.train), len(split.test), split.num_classes) == (5000, 1000, 10)
    assert torch.equal(split.train.labels, train.labels)
    assert torch.equal(split.test.labels, test.labels)


def test_a_directory_that_was_named_has_to_have_the_files(offline, tmp_path):
    asked = command.ComparisonRequest(
        Task("mnist, 2-layer", "mnist", "2-layer", 1, 500), data=tmp_path, probe_only=True
    )
    with pytest.raises(DatasetNotFoundError, match="MNIST was not found: not in"):
        command.compare(asked, tmp_path / "out")


def test_ctrl_c_says_how_to_go_on(monkeypatch, tmp_path, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "compared", interrupted)
    monkeypatch.chdir(tmp_path)
    arguments = ["compare", "--dataset", "mnist-mini", "--epochs", "1", "--method", "recommended", "--out", "the out"]
    monkeypatch.setattr(sys, "argv", ["gradorder", *arguments])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 130
    said = capsys.readouterr().err
    assert "gradorder compare --dataset mnist-mini --epochs 1 --method recommended --out 'the out'" in said
