import csv
import importlib.util
from pathlib import Path

import pytest
import torch

import gradorder as go
from gradorder_lab.paper import grey_images
from gradorder_lab.paper.network import begin
from gradorder_lab.runs.recipe import Workspace

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "epoch_diagnostics.csv"


@pytest.fixture(scope="module")
def diagnostics():
    script = ROOT / "benchmarks" / "epoch_diagnostics.py"
    spec = importlib.util.spec_from_file_location("epoch_diagnostics", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("way", ["contiguous", "half dealt"])
def test_the_written_rows_are_found_again(diagnostics, way):
    with RESULTS.open(newline="") as file:
        written = [row for row in csv.DictReader(file) if (row["examples"], row["way"]) == ("4480", way)]
    found = list(diagnostics.rows(4480, way))
    assert len(written) == len(found) == 30
    for row, again in zip(written, found, strict=True):
        for name, value in again.items():
            # Another machine rounds otherwise, and rounding grows over the steps.
            assert row[name] == value if name == "way" else float(row[name]) == pytest.approx(float(value), rel=0.02)


def test_an_epoch_in_tenths_is_the_epoch(diagnostics):
    """The same weights as a loop over the sampler's batches, and numbers that a hand would write down."""
    recipe = grey_images.grey_recipe("mnist", "mini", "2-layer", 128, ("full ordered", "first"))
    run, by_hand = (begin(recipe, 1, Workspace()) for _ in range(2))
    scores = go.gradient_norms(by_hand.model, by_hand.train.batch(range(5000)))
    batches = list(by_hand.batches(0))
    tenths = list(diagnostics.tenths(run, 0))
    for indices in batches:
        by_hand.update(by_hand.train.batch(indices), None, by_hand.step_size(by_hand.cost.updates, 0, 0.0))
    for one, other in zip(run.model.parameters(), by_hand.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [tenth.tenth for tenth in tenths] == list(range(1, 11))
    first, last = batches[:4], batches[-4:]
    assert tenths[0].score == pytest.approx(scores[torch.cat(first)].mean().item(), rel=1e-5)
    assert tenths[-1].score == pytest.approx(scores[torch.cat(last)].mean().item(), rel=1e-5)
    assert tenths[0].ink == pytest.approx(run.train.images[torch.cat(first)].numpy().mean())
    assert (tenths[-1].last_batch, len(batches[-1])) == (8, 8)
    assert tenths[-1].last_score == pytest.approx(scores[batches[-1]].mean().item(), rel=1e-5)
    assert tenths[-1].largest_class == max(
        run.train.labels[batch].bincount().max().item() / len(batch) for batch in last
    )
    order = scores.argsort(descending=True, stable=True)
    losses = go.cross_entropy(run.model, run.train.batch(order))
    assert tenths[-1].hard_loss == pytest.approx(losses[:2500].mean().item(), rel=1e-4)
    assert tenths[-1].easy_loss == pytest.approx(losses[2500:].mean().item(), rel=1e-4)
    inputs, targets = run.measured["test"].batch(range(1000))
    right = (run.model(inputs).argmax(1) == targets).float().mean().item()
    assert tenths[-1].test_accuracy == pytest.approx(100 * right, abs=1e-3)
