"""A text in a file like the public one, and a language model that learns it."""

import lzma
from math import log

import pytest
import torch
from torch.nn import functional as F
from trainings import plain, split_of

from gradorder_lab.benchmark.measure import ACCURACY
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.task import Task
from gradorder_lab.data.tiny_shakespeare import WINDOW_LENGTH, tiny_shakespeare
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError
from gradorder_lab.methods import BASELINE, RECOMMENDED
from gradorder_lab.models import CausalConvNet
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.training.network import evaluate

TEXT = "to be or not to be, " * 200
TASK = Task("text", "tinyshakespeare", "causal", epochs=6, batch_size=8)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.delenv("GRADORDER_DATA", raising=False)
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt.xz").write_bytes(lzma.compress(TEXT.encode()))
    return tmp_path


def test_windows_follow_each_other_and_targets_are_the_next_characters(directory):
    train, test, num_characters = tiny_shakespeare(directory)
    assert num_characters == len(set(TEXT))
    characters = sorted(set(TEXT))
    spelt = "".join(characters[code] for code in train.inputs.flatten())
    assert TEXT.startswith(spelt)
    assert len(spelt) == 3584  # of 3600: windows of 64
    assert "".join(characters[code] for code in train.labels.flatten()) == TEXT[1:3585]
    assert "".join(characters[code] for code in test.inputs.flatten()) == TEXT[3600 : 3600 + 6 * WINDOW_LENGTH]


def test_what_is_missing_or_too_short_is_said(directory):
    (directory / "tinyshakespeare" / "input.txt").write_text(TEXT[:640])
    with pytest.raises(DatasetFileError, match="must have more than 640 characters, got 640"):
        tiny_shakespeare(directory)
    with pytest.raises(DatasetNotFoundError, match=r"DIR/tinyshakespeare/input\.txt"):
        tiny_shakespeare(None)


def test_a_position_sees_no_later_one():
    model = CausalConvNet(10, width=8)
    tokens = torch.randint(10, (1, 20), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 12] = (changed[0, 12] + 1) % 10
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :, :12], after[:, :, :12])
    assert not torch.equal(before[:, :, 12], after[:, :, 12])


@pytest.mark.parametrize("method", [BASELINE, RECOMMENDED])
def test_a_language_model_learns_in_the_benchmark(directory, method):
    rows = CompareRecipe.of(TASK, method, 0.2, 1.0).run(0, Workspace(data=directory))
    assert rows["test_loss"][-1] < 0.5 * log(len(set(TEXT)))
    assert rows["test_accuracy"][-1] > 70


def test_loss_and_accuracy_are_means_over_characters(directory):
    split = split_of(TASK, directory)
    model = plain(TASK).network(split, seed=0)
    inputs, targets = split.test.batch(torch.arange(len(split.test)))
    loss, accuracy = evaluate(model, split.test)
    logits = model(inputs).transpose(1, 2).reshape(-1, split.num_classes)
    assert loss == pytest.approx(F.cross_entropy(logits, targets.flatten()).item())
    assert accuracy == pytest.approx(100 * (logits.argmax(1) == targets.flatten()).float().mean().item())
    assert TASK.measure == ACCURACY
    assert not TASK.has_classes
