import pickle
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, SequentialSampler

from gradorder_lab.data import ImageDataset
from gradorder_lab.data.images import class_balanced_indices

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def dataset(num_examples=30, num_classes=3):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (num_examples, 3, 5, 4), generator=generator, dtype=torch.uint8)
    labels = torch.randint(num_classes, (num_examples,), generator=generator)
    return ImageDataset(images, labels, num_classes, MEAN, STD)


def normalised_slowly(image):
    """The formula, a pixel at a time, in double precision."""
    result = torch.empty(image.shape, dtype=torch.float64)
    for channel in range(image.shape[0]):
        for row in range(image.shape[1]):
            for column in range(image.shape[2]):
                pixel = int(image[channel, row, column])
                result[channel, row, column] = (pixel / 255 - MEAN[channel]) / STD[channel]
    return result


def test_a_batch_is_its_examples_normalised():
    data = dataset()
    indices = [7, 0, 29, 7]
    inputs, labels = data.batch(indices)
    assert inputs.dtype == torch.float32
    assert labels.tolist() == [data.labels[i] for i in indices]
    expected = torch.stack([normalised_slowly(data.images[i]) for i in indices])
    torch.testing.assert_close(inputs.double(), expected, rtol=0, atol=1e-6)


def test_an_example_is_a_batch_of_one():
    data = dataset()
    for index in (0, 12, -1):
        image, label = data[index]
        inputs, labels = data.batch([index % len(data)])
        assert torch.equal(image, inputs[0])
        assert torch.equal(label, labels[0])


@pytest.mark.parametrize("indices", [[30], [-1], torch.tensor([30]), torch.tensor([-1])])
def test_out_of_range(indices):
    with pytest.raises(IndexError):
        dataset().batch(indices)


def test_nothing_is_changed_by_reading():
    data = dataset()
    before = data.images.clone()
    data.batch([1, 2])[0].zero_()
    data[3][0].zero_()
    data.normalised(data.images)
    assert torch.equal(data.images, before)


def test_augment_sees_the_bytes():
    data = dataset()
    seen = []

    def darken(images):
        seen.append(images)
        return images // 2

    inputs, _ = data.batch([4, 5], augment=darken)
    assert torch.equal(seen[0], data.images[4:6])
    assert torch.equal(inputs, data.normalised(data.images[4:6] // 2))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_loader_collates_examples(num_workers):
    data = dataset()
    loader = DataLoader(data, batch_size=8, sampler=SequentialSampler(data), num_workers=num_workers)
    for step, (inputs, labels) in enumerate(loader):
        expected = data.batch(torch.arange(8 * step, min(8 * step + 8, 30)))
        assert torch.equal(inputs, expected[0])
        assert torch.equal(labels, expected[1])


def test_to_another_device_normalises_there():
    data = dataset().to(torch.device("cpu"))
    assert torch.equal(data.batch([3])[0], dataset().batch([3])[0])


def test_survives_the_way_to_a_worker():
    data = pickle.loads(pickle.dumps(dataset()))  # noqa: S301 - our own bytes, as DataLoader sends them
    assert torch.equal(data.batch([3])[0], dataset().batch([3])[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": torch.zeros(2, 3, 5, 4)}, r"images must be uint8 \(N, C, H, W\), got torch.float32"),
        ({"images": torch.zeros(2, 5, 4, dtype=torch.uint8)}, r"images must be .* of shape \(2, 5, 4\)"),
        ({"labels": torch.zeros(2)}, r"labels must be int64 of shape \(2,\), got torch.float32"),
        ({"labels": torch.tensor([0])}, r"labels must be int64 of shape \(2,\), got torch.int64 of shape \(1,\)"),
        ({"labels": torch.tensor([0, 2])}, "labels must be 0 to 1, got 0 to 2"),
        ({"labels": torch.tensor([-1, 0])}, "labels must be 0 to 1, got -1 to 0"),
    ],
)
def test_what_does_not_fit_together(change, message):
    images = torch.zeros(2, 3, 5, 4, dtype=torch.uint8)
    good = {"images": images, "labels": torch.tensor([0, 1]), "num_classes": 2, "mean": MEAN, "std": STD}
    ImageDataset(**good)
    with pytest.raises(ValueError, match=message):
        ImageDataset(**good | change)


def first_of_each_class(labels, num_classes, per_class):
    """One label at a time."""
    seen, chosen = Counter(), []
    for position, label in enumerate(labels.tolist()):
        seen[label] += 1
        if seen[label] <= per_class:
            chosen.append(position)
    return chosen


@given(st.data())
def test_subset_is_balanced_and_in_order(data):
    num_classes = data.draw(st.integers(1, 5))
    per_class = data.draw(st.integers(1, 4))
    extra = data.draw(st.lists(st.integers(0, num_classes - 1), max_size=20))
    labels = torch.tensor(data.draw(st.permutations([*range(num_classes)] * per_class + extra)))
    first = class_balanced_indices(labels, num_classes, num_classes * per_class)
    assert first.tolist() == first_of_each_class(labels, num_classes, per_class)
    assert first.tolist() == sorted(set(first.tolist()))
    assert labels[first].bincount(minlength=num_classes).tolist() == [per_class] * num_classes


def test_subset_takes_images_and_labels_together():
    data = dataset()
    part = data.subset(6)
    chosen = class_balanced_indices(data.labels, 3, 6)
    assert torch.equal(part.images, data.images[chosen])
    assert torch.equal(part.labels, data.labels[chosen])


@pytest.mark.parametrize(
    ("num_examples", "message"),
    [
        (7, "num_examples must be a multiple of the 3 classes, got 7"),
        (0, "num_examples must be a positive integer, got 0"),
        (60, r"num_examples=60 needs 20 examples of each of 3 classes, but class \d has \d+"),
    ],
)
def test_subset_refuses(num_examples, message):
    with pytest.raises(ValueError, match=message):
        dataset().subset(num_examples)
