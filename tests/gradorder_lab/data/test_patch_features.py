"""The fixed bank, against the same by hand: patch by patch."""

import pytest
import torch

from gradorder_lab.data import patch_features
from gradorder_lab.data.images import ImageDataset
from gradorder_lab.data.patch_features import Bank, cifar10_features


@pytest.fixture(autouse=True)
def _few_patches(monkeypatch):
    monkeypatch.setattr(patch_features, "_NUM_PATCHES", 500)


def images(num_images, seed):
    noise = torch.rand(num_images, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    smooth = torch.nn.functional.avg_pool2d(noise, 5, stride=1, padding=2)
    return (255 * smooth).to(torch.uint8)


def test_a_feature_is_the_mean_response_above_the_threshold_over_a_quarter():
    some = images(20, 0)
    bank = Bank.of(some, torch.Generator().manual_seed(0), num_filters=5)
    found = bank.features(some[:1]).view(5, 2, 2)
    for row, column in ((0, 0), (1, 0), (1, 1)):
        total = torch.zeros(5)
        # 14 places each way, every second pixel: 7 in each half
        for top in range(14 * row, 14 * row + 14, 2):
            for left in range(14 * column, 14 * column + 14, 2):
                patch = some[0, :, top : top + 6, left : left + 6].flatten().double() / 255
                patch = (patch - patch.mean()) / (patch.var(correction=0) + 0.0016).sqrt()
                total += ((bank.filters.flatten(1).double() @ patch) + bank.shifts - 1).clamp(min=0).float()
        torch.testing.assert_close(found[:, row, column], total / 49, rtol=1e-3, atol=1e-4)
    assert found.max() > 0


def test_whitened_patches_have_no_preferred_direction():
    """The filters are chosen patches, whitened twice: w . (x - mean) is chosen . whitening (x - mean)."""
    some = images(50, 1)
    bank = Bank.of(some, torch.Generator().manual_seed(0), num_filters=100)
    assert bank.filters.shape == (100, 3, 6, 6)
    again = Bank.of(some, torch.Generator().manual_seed(0), num_filters=100)
    assert torch.equal(bank.filters, again.filters)
    responses = bank.filters.flatten(1) @ patch_features._even(
        patch_features._random_patches(some, torch.Generator().manual_seed(5))
    ).T.float() + bank.shifts.unsqueeze(1)
    assert responses.mean(1).abs().max() < 0.3
    assert 0.1 < responses.std(1).min() <= responses.std(1).max() < 1.5


def test_train_is_standardised_and_test_by_the_same_numbers(monkeypatch):
    labels = torch.arange(40) % 2
    sets = [ImageDataset(images(40, seed), labels, 2, (0.5,) * 3, (0.2,) * 3) for seed in (0, 1)]
    monkeypatch.setattr(patch_features, "load", lambda *_, **__: sets)
    train, test, num_classes = cifar10_features.__wrapped__(None)
    assert num_classes == 2
    assert train.inputs.shape == test.inputs.shape == (40, 4 * patch_features.NUM_FILTERS)
    torch.testing.assert_close(train.inputs.mean(0), torch.zeros(1024), atol=1e-4, rtol=0)
    is_used = train.inputs.std(0) > 0.5
    assert is_used.float().mean() > 0.5
    torch.testing.assert_close(train.inputs.std(0)[is_used], torch.ones(int(is_used.sum())), atol=1e-3, rtol=0)
    assert not torch.allclose(test.inputs.mean(0), torch.zeros(1024), atol=1e-3)
    assert torch.equal(train.labels, labels)
