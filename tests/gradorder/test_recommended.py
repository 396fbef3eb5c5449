import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Subset, TensorDataset, random_split

import gradorder as go


def visits(sampler, epochs, losses_of=lambda indices, epoch: torch.ones(len(indices))):
    """The examples of every epoch, trained as a user would."""
    seen = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        indices = list(sampler_batches(sampler, epoch, losses_of))
        seen.append(indices)
    return seen


def sampler_batches(sampler, epoch, losses_of):
    batch = []
    for index in sampler:
        batch.append(index)
        yield index
        if len(batch) == sampler.batch_size:
            sampler.step(losses_of(torch.tensor(batch), epoch))
            batch = []
    if batch:
        sampler.step(losses_of(torch.tensor(batch), epoch))


@given(
    num_examples=st.integers(20, 200),
    epochs=st.integers(1, 30),
    budget=st.floats(0.05, 1),
    batch_size=st.integers(1, 40),
)
def test_the_budget_is_kept_or_refused(num_examples, epochs, budget, batch_size):
    try:
        sampler = go.recommended(num_examples, batch_size, epochs=epochs, budget=budget)
    except ValueError as error:
        assert "budget" in str(error)  # noqa: PT017 - whether it is raised is up to the numbers
        return
    lengths = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch, scores=torch.rand(num_examples))
        lengths.append(len(sampler))
    assert lengths[0] == lengths[-1] == num_examples
    if epochs <= 3 and budget * epochs <= min(epochs, 2):  # the first and the last alone cost that much
        assert lengths == [num_examples] * epochs
        return
    # ceil adds less than one example per epoch
    assert budget * epochs * num_examples <= sum(lengths) + 1e-6
    assert sum(lengths) < budget * epochs * num_examples + epochs


def test_steps_are_known_up_front():
    sampler = go.recommended(1000, batch_size=64, epochs=20, budget=0.5)
    promised = sampler.num_steps(0, 20)
    seen = visits(sampler, 20)
    assert promised == sum(-(-len(indices) // 64) for indices in seen)


def test_no_example_is_forgotten():
    epochs = 20
    easy = torch.zeros(400)
    easy[:40] = 5.0
    seen = visits(go.recommended(400, 50, epochs=epochs, budget=0.3), epochs, lambda indices, _: easy[indices])
    for first in range(1, epochs - 8):
        window = {index for epoch in range(first, first + 8) for index in seen[epoch]}
        assert len(window) == 400


def test_the_undecided_come_most_often_and_the_learned_least_and_none_never():
    losses = torch.full((400,), 0.05)  # learned
    losses[:100] = 0.7  # undecided
    losses[100:200] = 8.0  # looks wrong
    epochs = 50
    seen = visits(go.recommended(400, 50, epochs=epochs, budget=0.5), epochs, lambda indices, _: losses[indices])
    partial = [indices for indices in seen if len(indices) < 400]

    def rate(wanted):
        return sum(index in wanted for indices in partial for index in indices) / len(partial) / len(wanted)

    undecided, wrong, learned = rate(range(100)), rate(range(100, 200)), rate(range(200, 400))
    assert 0.8 < undecided < 1
    assert 0.35 < wrong < 0.75
    assert 0.125 < learned < 0.35  # an eighth is forced


def test_what_was_drawn_is_shuffled():
    losses = torch.linspace(1, 100, 1000)
    seen = visits(go.recommended(1000, 100, epochs=10, budget=0.6), 5, lambda indices, _: losses[indices])
    for indices in seen[1:]:
        first, last = indices[: len(indices) // 2], indices[len(indices) // 2 :]
        assert abs(losses[first].mean() - losses[last].mean()) < 10  # sorted, they would differ by about 40


def test_full_budget_is_plain_reshuffling():
    seen = visits(go.recommended(100, 10, epochs=4, budget=1.0), 4)
    assert all(sorted(indices) == list(range(100)) for indices in seen)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_a_run_too_short_to_save_anything_is_complete(epochs):
    """And says nothing: the epochs are as long as they were announced."""
    sampler = go.recommended(100, 10, epochs=epochs, budget=0.6)
    assert sampler.num_steps(0, epochs) == 10 * epochs
    assert all(sorted(indices) == list(range(100)) for indices in visits(sampler, epochs))


@pytest.mark.parametrize("epochs", [1, 2, 5])
@pytest.mark.parametrize("labels", [None, torch.arange(100) % 3])
def test_without_a_budget_and_anything_learned_it_is_random_reshuffling_to_the_bit(epochs, labels):
    plain = go.OrderedSampler(100, 10, ordering=go.Shuffled(), labels=labels, seed=3)
    expected = visits(plain, epochs)
    sampler = go.recommended(100, 10, epochs=epochs, labels=labels, seed=3)
    assert visits(sampler, epochs, lambda indices, epoch: 2.0 + torch.sin(indices + 10.0 * epoch)) == expected


def test_without_a_budget_what_is_learned_is_left_out_until_its_turn_comes():
    epochs = 20
    learned = torch.arange(400) % 10 > 3
    losses = torch.where(learned, 0.01, 1.5)
    seen = visits(go.recommended(400, 50, epochs=epochs), epochs, lambda indices, _: losses[indices])
    assert len(seen[0]) == 400
    for indices in seen[1:]:
        assert set(indices) > set((~learned).nonzero().flatten().tolist())
        assert 160 < len(indices) < 240  # a quarter of the 240 that are learned
    for first in range(1, epochs - 4):
        assert {index for epoch in range(first, first + 4) for index in seen[epoch]} == set(range(400))


def test_what_is_forgotten_is_seen_again():
    """An example whose turn comes and whose loss has grown stays from then on."""
    seen = visits(
        go.recommended(80, 10, epochs=20),
        20,
        lambda indices, epoch: torch.where((indices < 60) & ((indices != 5) | (epoch < 3)), 0.01, 2.0),
    )
    back = next(epoch for epoch in range(3, 20) if 5 in seen[epoch])
    assert back <= 7
    assert all(5 in indices for indices in seen[back:])


@pytest.mark.parametrize("budget", [None, 0.6])
def test_labels_give_stratified_batches(budget):
    labels = torch.arange(100) % 5
    sampler = go.recommended(100, 10, epochs=10, labels=labels, budget=budget)
    for indices in visits(sampler, 10):
        for batch in torch.tensor(indices).split(10):
            if len(batch) == 10:
                assert labels[batch].bincount(minlength=5).tolist() == [2] * 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 4, "budget": 0.5}, "budget.*0.5.*epochs=4.*0.5"),
        ({"epochs": 10, "budget": 0.2}, "budget.*0.2.*epochs=10"),
        ({"epochs": 10, "budget": 0.0}, r"budget must be in \(0, 1\], got 0.0"),
        ({"epochs": 10, "budget": 1.5}, r"budget must be in \(0, 1\], got 1.5"),
        ({"epochs": 0}, "epochs must be a positive integer, got 0"),
        (
            {"epochs": 10, "budget": 0.20001},
            "budget.*10.*0.20001.*1 of 100",
        ),
        ({"epochs": 10, "budget": 0.27}, "0.27.*9 of 100"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        go.recommended(100, 10, **settings)


def test_a_batch_is_enough_for_an_epoch_and_so_is_all_that_there_is():
    assert go.recommended(100, 10, epochs=10, budget=0.28).num_steps(1, 2) == 1
    for num_examples in (5, 10):
        assert go.recommended(num_examples, 10, epochs=10, budget=0.5).num_steps(1, 2) == 1


# Labels of the dataset ------------------------------------------------------------------------------------------------

LABELS = torch.arange(160) % 4


class WithAttribute:
    """A dataset that shows its labels, and must not be asked for an example."""

    def __init__(self, name, values):
        setattr(self, name, values)

    def __len__(self):
        return 160

    def __getitem__(self, index):
        raise AssertionError("labels must be found without loading an example")


def hugging_face(feature, values, name="label"):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"x": datasets.Value("float32"), name: feature(datasets)})
    return datasets.Dataset.from_dict({"x": [0.0] * 160, name: values}, features=features)


WITH_CLASSES = {
    "targets": lambda: WithAttribute("targets", LABELS.tolist()),
    "labels": lambda: WithAttribute("labels", LABELS.numpy()),
    "TensorDataset": lambda: TensorDataset(torch.zeros(160, 2), LABELS),
    "ClassLabel": lambda: hugging_face(lambda d: d.ClassLabel(num_classes=4), LABELS.tolist()),
    "integer column": lambda: hugging_face(lambda d: d.Value("int64"), LABELS.tolist(), "labels").with_format("torch"),
    "Subset": lambda: Subset(TensorDataset(torch.zeros(320, 2), torch.arange(320) % 4), range(160)),
    "random_split": lambda: random_split(TensorDataset(torch.zeros(160, 2), LABELS), [1.0])[0],
    "Subset of Subset of Hugging Face": lambda: Subset(Subset(WITH_CLASSES["ClassLabel"](), range(160)), range(160)),
}


class NotDownloaded(WithAttribute):
    """A dataset whose labels cannot be read."""

    def __init__(self):
        super().__init__("files", [])

    @property
    def targets(self):
        raise RuntimeError("download the dataset first")


WITHOUT = {
    "regression": lambda: TensorDataset(torch.zeros(160, 2), torch.rand(160)),
    "multi-label": lambda: TensorDataset(torch.zeros(160, 2), torch.ones(160, 3, dtype=torch.long)),
    "one class": lambda: TensorDataset(torch.zeros(160, 2), torch.zeros(160, dtype=torch.long)),
    "identifiers": lambda: WithAttribute("labels", list(range(160))),
    "ragged": lambda: WithAttribute("targets", [[0], [1, 2]] * 80),
    "Subset of ragged": lambda: Subset(WithAttribute("targets", [[0], [1, 2]] * 80), range(160)),
    "Subset of too few": lambda: Subset(WithAttribute("targets", [0, 1] * 40), range(160)),
    "unreadable": NotDownloaded,
    "a method": lambda: WithAttribute("labels", lambda: LABELS),
    "text": lambda: hugging_face(lambda d: d.Value("string"), ["a", "b"] * 80),
    "inputs only": lambda: TensorDataset(torch.zeros(160, 2)),
    "a length": lambda: 160,
}


@pytest.mark.parametrize("name", WITH_CLASSES)
def test_batches_are_stratified_by_the_labels_of_the_dataset(name):
    sampler = go.recommended(WITH_CLASSES[name](), 16, epochs=3)
    assert "stratified by 4 classes" in repr(sampler)
    labels = LABELS
    if name == "random_split":
        labels = LABELS[torch.tensor(sampler.dataset.indices)]
    for batch in torch.tensor(list(sampler)).split(16):
        assert labels[batch].bincount(minlength=4).tolist() == [4] * 4


@pytest.mark.parametrize("name", WITHOUT)
def test_batches_are_random_if_the_dataset_shows_no_classes(name):
    sampler = go.recommended(WITHOUT[name](), 16, epochs=3)
    assert "no labels" in repr(sampler)
    assert list(sampler) == list(go.OrderedSampler(160, 16, ordering=go.Shuffled()))


def test_labels_can_be_turned_off():
    assert "no labels" in repr(go.recommended(WITH_CLASSES["TensorDataset"](), 16, epochs=3, labels=None))
