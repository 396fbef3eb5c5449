"""Phrases in files like the public ones."""

import lzma

import pytest
import torch

from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.task import Task
from gradorder_lab.data import sst2
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError
from gradorder_lab.methods import BASELINE
from gradorder_lab.runs.recipe import Workspace

TRAIN = "sentence\tlabel\na good film \t1\na bad , bad film \t0\ngood \t1\n"
DEV = "sentence\tlabel\ngood and bad \t0\n"


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.delenv("GRADORDER_DATA", raising=False)
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train.tsv").write_text(TRAIN)
    (tmp_path / "sst2" / "dev.tsv.xz").write_bytes(lzma.compress(DEV.encode()))
    return tmp_path


def test_words_are_numbered_by_how_frequent_they_are_in_the_training_part(directory):
    train, test, num_classes = sst2.sst2(directory)
    assert num_classes == 2
    assert train.inputs.shape == (3, sst2.PHRASE_LENGTH)
    # a, bad, film and good twice each, by the alphabet; then the comma
    assert [row[row > 0].tolist() for row in train.inputs] == [[2, 5, 4], [2, 3, 6, 3, 4], [5]]
    assert train.labels.tolist() == [1, 0, 1]
    assert test.inputs[0, :4].tolist() == [5, sst2.UNKNOWN, 3, sst2.PADDING]
    assert test.labels.tolist() == [0]


def test_rare_words_share_a_number(directory, monkeypatch):
    monkeypatch.setattr(sst2, "NUM_WORDS", 4)
    train, _, _ = sst2.sst2(directory)
    assert train.inputs.max() == 3
    assert train.inputs[0, :3].tolist() == [2, sst2.UNKNOWN, sst2.UNKNOWN]


def test_a_missing_file_is_said_with_its_place(directory):
    (directory / "sst2" / "dev.tsv.xz").unlink()
    with pytest.raises(DatasetNotFoundError, match=rf"{directory}/sst2/dev.tsv"):
        sst2.sst2(directory)
    with pytest.raises(DatasetNotFoundError, match=r"DIR/sst2/train\.tsv"):
        sst2.sst2(None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must start with the line"),
        (b"good\t1\n", "must start with the line 'sentence.tlabel', got 'good.t1'"),
        (b"sentence\tlabel\n", "holds no phrases"),
        (b"sentence\tlabel\ngood \t1\nbad \t2\n", "line 3 must end with a tab and 0 or 1, got 'bad .t2'"),
        (b"sentence\tlabel\n\xff \t1\n", "must be UTF-8"),
    ],
)
def test_a_wrong_file_is_refused(directory, content, message):
    (directory / "sst2" / "train.tsv").write_bytes(content)
    with pytest.raises(DatasetFileError, match=message):
        sst2.sst2(directory)


def test_a_damaged_packed_file_is_refused(directory):
    path = directory / "sst2" / "dev.tsv.xz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DatasetFileError, match="corrupt xz"):
        sst2.sst2(directory)


def test_the_benchmark_trains_on_it(directory):
    good, bad = "a good film \t1\n", "a bad film \t0\n"
    (directory / "sst2" / "train.tsv").write_text("sentence\tlabel\n" + 40 * (good + bad))
    (directory / "sst2" / "dev.tsv.xz").write_bytes(lzma.compress(f"sentence\tlabel\n{good}{bad}".encode()))
    task = Task("words", "sst2", "bag-of-words", epochs=4, batch_size=8)
    rows = CompareRecipe.of(task, BASELINE, 0.5, 1.0).run(0, Workspace(data=directory))
    assert rows["test_accuracy"][-1] == 100
    assert rows["trained"][-1] == 320


def test_padding_and_the_order_of_words_do_not_matter_and_their_number_hardly():
    from gradorder_lab.models import BagOfWords  # noqa: PLC0415

    model = BagOfWords(10)
    words = torch.tensor([[3, 4, 5], [5, 3, 4]])
    padded = torch.cat([words, torch.zeros(2, 4, dtype=torch.int64)], dim=1)
    assert torch.allclose(model(words)[0], model(padded)[1])
    assert not torch.allclose(model(words)[0], model(torch.tensor([[3, 4, 6]]))[0])
    assert model(torch.zeros(1, 3, dtype=torch.int64)).isfinite().all()
