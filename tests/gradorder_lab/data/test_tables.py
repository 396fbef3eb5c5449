"""Tables of numbers: files like the public ones, and those that come with scikit-learn."""

import lzma

import pytest
import torch

from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.suites import DIABETES
from gradorder_lab.data.california_housing import california_housing
from gradorder_lab.data.libsvm import a9a, w8a
from gradorder_lab.data.scikit_learn import breast_cancer, diabetes, digits
from gradorder_lab.errors import DatasetFileError, DatasetNotFoundError, LabError
from gradorder_lab.methods import BASELINE
from gradorder_lab.training.split import DataSettings, load_split


@pytest.fixture
def libsvm(tmp_path):
    (tmp_path / "libsvm").mkdir()
    return tmp_path


def test_features_count_from_one_and_rows_may_be_empty(libsvm):
    (libsvm / "libsvm" / "a9a").write_text("-1 1:1 123:1 \n+1 \n\n")
    (libsvm / "libsvm" / "a9a.t.xz").write_bytes(lzma.compress(b"+1 2:1\n-1 3:1\n"))
    train, test, num_classes = a9a(libsvm)
    assert num_classes == 2
    assert train.inputs.dtype == torch.float32
    assert train.inputs.nonzero().tolist() == [[0, 0], [0, 122]]
    assert train.labels.tolist() == [0, 1]
    assert test.inputs.nonzero().tolist() == [[0, 1], [1, 2]]
    assert test.labels.tolist() == [1, 0]


def test_a_fifth_of_w8a_is_held_out_and_no_row_is_lost(libsvm):
    (libsvm / "libsvm" / "w8a").write_text("".join(f"{'+1' if n % 2 else '-1'} {n + 1}:1\n" for n in range(50)))
    train, test, _ = w8a(libsvm)
    again, _, _ = w8a(libsvm)
    assert (len(train), len(test)) == (40, 10)
    assert torch.equal(train.inputs, again.inputs)
    features = torch.cat([train.inputs, test.inputs]).nonzero()[:, 1]
    assert sorted(features.tolist()) == list(range(50))
    assert torch.equal(train.labels, train.inputs.argmax(1) % 2)  # every row keeps its label


@pytest.mark.parametrize("content", ["-1 1:1\n2 1:1\n", "-1 1:1\n+1 301:1\n", "one 1:1\n", "-1 0:1\n+1 1:1\n"])
def test_what_is_no_table_of_two_classes_is_refused(libsvm, content):
    (libsvm / "libsvm" / "w8a").write_text(content)
    with pytest.raises(DatasetFileError, match="w8a"):
        w8a(libsvm)


def test_a_missing_table_is_said_with_its_place(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"libsvm/a9a was not found"):
        a9a(tmp_path)


def test_california_is_standardised_by_its_training_part(tmp_path):
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(500, 9, generator=generator) * torch.arange(1, 10) + 100
    (tmp_path / "california-housing").mkdir()
    lines = [",".join(f"{value:.6f}" for value in row) for row in table.tolist()]
    (tmp_path / "california-housing" / "cal_housing.data").write_text("\n".join(lines))
    train, test, num_targets = california_housing(tmp_path)
    assert (train.inputs.shape, test.inputs.shape, num_targets) == ((400, 8), (100, 8), 1)
    for values in (train.inputs, train.labels):
        torch.testing.assert_close(values.mean(0), torch.zeros_like(values[0]), atol=1e-5, rtol=0)
        torch.testing.assert_close(values.std(0, correction=0), torch.ones_like(values[0]), atol=1e-5, rtol=0)
    assert 0.01 < abs(test.labels.mean()) < 0.5  # with the training part's mean, not its own
    (tmp_path / "california-housing" / "cal_housing.data").write_text("1,2,3\n")
    with pytest.raises(DatasetFileError, match="nine numbers per line, got 3"):
        california_housing(tmp_path)


@pytest.mark.parametrize(
    ("table", "sizes", "classes"),
    [(digits, (1258, 539, 64), 10), (breast_cancer, (398, 171, 30), 2), (diabetes, (309, 133, 10), 1)],
)
def test_the_tables_of_scikit_learn(table, sizes, classes):
    train, test, num_outputs = table(None)
    assert (len(train), len(test), train.inputs.shape[1]) == sizes
    assert num_outputs == classes
    assert train.inputs.dtype == torch.float32
    assert train.inputs.isfinite().all()
    if table is diabetes:
        assert train.labels.dtype == torch.float32
    else:
        assert train.labels.unique().tolist() == list(range(classes))


def test_a_regression_is_judged_by_its_loss():
    rows = CompareRecipe.of(DIABETES, BASELINE, 0.01, 1.0, validates=True).run(seed=0)
    assert 0 < rows["test_loss"][-1] < 0.9  # the variance of the target is 1
    assert torch.tensor(rows["test_accuracy"]).isnan().all()
    assert DIABETES.measure.name == "loss"
    assert DIABETES.margin == 1


def test_a_table_is_never_cut_silently():
    with pytest.raises(LabError, match="num_train must be None for digits, got 100"):
        load_split(DataSettings("digits", num_train=100), None)
