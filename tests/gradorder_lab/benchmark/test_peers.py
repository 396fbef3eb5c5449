"""The peer's own code, fed from memory, decides as it does when it is used as its documentation says."""

import sys

import numpy as np
import pytest
import torch
from datacull import DCDataset, DCLogger
from datacull.methods.RCAP import RCAPDataLoader, RCAPImportance

import gradorder as go
from gradorder_lab import peers
from gradorder_lab.errors import LabError

NUM_EXAMPLES = 300
LABELS = torch.arange(NUM_EXAMPLES) % 3
SEED = 7


@pytest.fixture
def losses():
    return torch.rand(3, NUM_EXAMPLES, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2


def requested(epoch, scores):
    return go.Request(epoch, NUM_EXAMPLES, torch.Generator().manual_seed(SEED), scores)


def by_files(losses, directory):
    """datacull from the first epoch on: a file of losses after each, its draw before the next."""
    data = torch.utils.data.TensorDataset(torch.zeros(NUM_EXAMPLES), LABELS)
    data.targets = LABELS.tolist()
    dataset, logger = DCDataset(data), DCLogger(f"{directory}/")
    loader = RCAPDataLoader(dataset, pruning_rate=0.5, batch_size=50)
    importance = RCAPImportance(dataset, logger, beta=2.0)
    importance.compute_importance()  # before the first epoch, which is complete here
    for epoch, of_epoch in enumerate(losses):
        seen = torch.cat([batch[-1] for batch in loader])
        logger.log_metric(epoch, seen, of_epoch[seen])
        np.random.seed(int(torch.randint(2**32, (), generator=torch.Generator().manual_seed(SEED))))
        loader.resample(importance.compute_importance())
        yield list(loader.sampler)


def test_rcap_draws_what_datacull_draws_from_its_files(losses, tmp_path):
    rule, remembered = peers.Rcap(LABELS), torch.zeros(NUM_EXAMPLES, dtype=torch.float64)
    seen = torch.arange(NUM_EXAMPLES)
    state = np.random.get_state()
    for epoch, (of_epoch, drawn) in enumerate(zip(losses, by_files(losses, tmp_path), strict=True)):
        remembered[seen] = of_epoch[seen]
        seen = rule.order(requested(epoch + 1, remembered.clone())).indices
        assert seen.tolist() == drawn
        assert len(seen) == pytest.approx(NUM_EXAMPLES / 2, abs=3)
    np.random.set_state(state)


def test_numpys_own_random_state_stays_as_it_was(losses):
    before = np.random.get_state()[1].copy()
    peers.Rcap(LABELS).order(requested(1, losses[0]))
    assert np.array_equal(np.random.get_state()[1], before)


def test_classes_that_are_no_range_are_classes_all_the_same(losses):
    order = peers.Rcap(10 * LABELS + 5).order(requested(1, losses[0])).indices
    assert np.bincount(LABELS[order]).min() > NUM_EXAMPLES / 9


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datacull", None)
    with pytest.raises(LabError, match=r"datacull RCAP needs the package datacull.*gradorder-lab\[peers\]") as caught:
        peers.Rcap(LABELS)
    assert "\n" not in str(caught.value)
