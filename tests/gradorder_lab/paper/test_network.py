import itertools
import random
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from processes import Started, next_line
from torch.nn import functional as F

import gradorder as go
from gradorder_lab import data
from gradorder_lab.errors import LabError
from gradorder_lab.models.named import MODELS
from gradorder_lab.paper import network
from gradorder_lab.paper.network import NeuralRecipe
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.runs.whole_file import load_checkpoint, save_checkpoint
from gradorder_lab.training.step_sizes import SCHEDULES, step_size_named

SMALL = NeuralRecipe(
    experiment="test", data="mnist", size="mini", num_train=300, model="2-layer", batch_size=50, epochs=4, momentum=0.9
)
METHODS = [
    ("full random", "none"),
    ("mini random", "none"),
    ("full ordered", "first"),
    ("full ordered", "first dealt"),
    ("mini ordered", "first"),
    ("mini ordered", "first dealt"),
    ("mini ordered", "within"),
]
TIMES = ("seconds", "score_seconds", "processor_seconds")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def whole_images(number):
    train, test = data.load("mnist", size="mini")
    return train.subset(number), test


def numbers(rows):
    return {name: values.tolist() for name, values in rows.items() if name not in TIMES}


def of_method(method, sort, **settings):
    return replace(SMALL, method=method, sort=sort, **settings)


def test_random_training_is_the_plain_loop():
    """The same weights as a loop that knows nothing of the library but the order of its examples."""
    rows = replace(SMALL, weight_decay=1e-3).run(seed=5)
    train, test = whole_images(300)
    torch.manual_seed(5)
    model = MODELS["2-layer"](10, (1, 28, 28), None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    sampler = go.OrderedSampler(300, 50, ordering=go.Shuffled(), seed=5)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for step, indices in enumerate(torch.tensor(list(sampler)).split(50)):
            images = train.images[indices].float() / 255
            inputs = (images - train.mean[0]) / train.std[0]
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + (epoch * 6 + step) / 6)
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), train.labels[indices]).backward()
            optimizer.step()
    inputs = (test.images.float() / 255 - test.mean[0]) / test.std[0]
    logits = model(inputs)
    assert rows["test_loss"][-1] == pytest.approx(F.cross_entropy(logits, test.labels).item(), rel=1e-4)
    assert rows["test_accuracy"][-1] == pytest.approx(
        100 * (logits.argmax(1) == test.labels).float().mean().item(), abs=0.2
    )
    assert rows["epoch"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("method", "sort"), METHODS)
@pytest.mark.parametrize("start", [0, 2])
def test_every_example_and_pass_is_counted(method, sort, start):
    rows = of_method(method, sort, start_epoch=start).run(seed=0)
    is_mini, is_ordered = method.startswith("mini"), method.endswith("ordered")
    late = 4 - start if method != "full random" else 0
    trained = 300 * (4 - late) + (150 if is_mini else 300) * late
    scored = 300 * late if is_ordered else 0
    assert rows["trained"][-1] == trained
    assert rows["scored"][-1] == scored
    assert rows["updates"][-1] == 24  # as many steps with half of the data
    assert rows["forward"][-1] == rows["backward"][-1] == trained + scored
    assert rows["score_seconds"][-1] <= rows["seconds"][-1]
    forward_only = of_method(method, sort, start_epoch=start, score="logit error").run(seed=0)
    assert (forward_only["forward"][-1], forward_only["backward"][-1]) == (trained + scored, trained)


@pytest.mark.parametrize(("method", "sort"), METHODS)
def test_every_method_learns_and_repeats_to_the_bit(method, sort):
    first, again, other = (numbers(of_method(method, sort).run(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first["test_loss"] != other["test_loss"]
    assert first["test_accuracy"][-1] > first["test_accuracy"][0] + 20


def test_methods_of_one_seed_share_start_and_random_epochs(tmp_path):
    for workspace in (Workspace(), Workspace(checkpoints=tmp_path)):
        straight = SMALL.run(3, workspace)
        for method, sort in METHODS[1:]:
            rows = of_method(method, sort, start_epoch=2).run(3, workspace)
            for name in ("train_loss", "test_accuracy", "trained"):
                assert rows[name][:3].tolist() == straight[name][:3].tolist()
            assert rows["train_loss"][3] != straight["train_loss"][3]


def _is_plain(run):
    strategy = run.strategy
    return strategy.score is None and strategy.select is None and strategy.sampler.loader_batch_size == 50


def test_random_epochs_are_trained_once(tmp_path, monkeypatch):
    trained = []
    original = network.train_one_epoch
    monkeypatch.setattr(
        network, "train_one_epoch", lambda run, epoch: (trained.append(_is_plain(run)), original(run, epoch))
    )
    workspace = Workspace(checkpoints=tmp_path)
    SMALL.run(0, workspace)
    for method, sort in METHODS[1:]:
        of_method(method, sort, start_epoch=2).run(0, workspace)
    assert trained.count(True) == 4
    assert len(trained) == 4 + 2 * len(METHODS[1:])


def test_sort_first_hands_out_the_hardest_balanced():
    recipe = of_method("mini ordered", "first")
    run = network.begin(recipe, 0, Workspace())
    scores = run.scores()
    batches = list(run.batches(0))
    assert [len(batch) for batch in batches] == [25] * 6
    kept = torch.cat(batches)
    for label in range(10):
        of_class = (run.train.labels == label).nonzero().flatten()
        hardest = of_class[scores[of_class].argsort(descending=True, stable=True)][:15]
        mine = kept[run.train.labels[kept] == label]
        assert mine.tolist() == hardest.tolist()
    assert all(run.train.labels[batch].bincount(minlength=10).max() <= 3 for batch in batches)


def test_sort_within_trains_on_the_hardest_half_of_each_batch():
    recipe = of_method("mini ordered", "within")
    run = network.begin(recipe, 0, Workspace())
    indices = next(iter(run.batches(0)))
    batch = run.train.batch(indices)
    norms = go.gradient_norms(run.model, batch)
    (inputs, targets), weights = run.selected(batch)
    assert weights is None
    best = norms.argsort(descending=True, stable=True)[:25]
    assert torch.equal(inputs, batch[0][best])
    assert torch.equal(targets, batch[1][best])


@pytest.mark.parametrize("score", network.SCORES)
def test_every_score_can_order(score):
    rows = of_method("full ordered", "first", score=score, epochs=1).run(0)
    assert rows["scored"][-1] == 300


def test_augmentation_is_seeded_by_seed_and_epoch():
    recipe = replace(SMALL, data="fashion-mnist", model="7-layer", num_train=100, epochs=2, augment=True)
    first, again = (numbers(recipe.run(0)) for _ in range(2))
    assert first == again
    assert numbers(replace(recipe, augment=False).run(0))["train_loss"][-1] != first["train_loss"][-1]


def test_rows_may_be_further_apart():
    rows, sparse = SMALL.run(0), replace(SMALL, evaluate_every=3).run(0)
    assert sparse["epoch"].tolist() == [0, 3, 4]
    assert sparse["train_loss"].tolist() == rows["train_loss"][[0, 3, 4]].tolist()


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    of_method("mini ordered", "first").run(0)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]


def test_step_sizes_by_hand():
    expected = {
        "constant": [1.0, 1.0, 1.0],
        "1/(1+t)": [1.0, 1 / 11, 1 / 31],
        "1/sqrt(1+t)": [1.0, 11**-0.5, 31**-0.5],
        "1/(1+t/n)": [1.0, 1 / 2, 1 / 4],
        "1/(1+k)": [1.0, 1 / 2, 1 / 4],
        "1/sqrt(1+k)": [1.0, 2**-0.5, 1 / 2],
        "cosine": [1.0, (1 + 2**-0.5) / 2, (1 - 2**-0.5) / 2],
    }
    assert set(expected) == {*SCHEDULES, "cosine"}
    for name, values in expected.items():
        schedule = step_size_named(name, 1.0, steps_per_epoch=10, epochs=4)
        assert [schedule(10 * epoch, epoch, 0.0) for epoch in (0, 1, 3)] == pytest.approx(values)
    with pytest.raises(ValueError, match="schedule must be one of constant"):
        step_size_named("linear", 1.0, steps_per_epoch=10, epochs=4)


# ---------------------------------------------------------------- checkpoints

LONG = of_method("mini ordered", "first", start_epoch=2, epochs=12)


def runs_with_checkpoints(folder):
    """Says when a checkpoint is there, and goes on."""
    save = network.save_checkpoint

    def saves(state, path):
        save(state, path)
        sys.stdout.write("saved\n")
        sys.stdout.flush()

    network.save_checkpoint = saves
    LONG.run(0, Workspace(checkpoints=folder))


def test_killed_a_run_ends_with_the_same_rows(tmp_path):
    straight = numbers(LONG.run(0))
    for num_saved in (1, 3, 2):
        with Started(runs_with_checkpoints, tmp_path) as runner:
            assert next_line(runner.stdout, "a checkpoint") == "saved\n"
            for _ in range(num_saved - 1):
                runner.stdout.readline()
    assert numbers(LONG.run(0, Workspace(checkpoints=tmp_path))) == straight


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_stopped_after_any_epoch_a_run_goes_on(tmp_path, monkeypatch, stop):
    recipe = of_method("mini ordered", "within", start_epoch=1)
    straight = numbers(recipe.run(4))
    original, count = network.train_one_epoch, itertools.count()

    def stops(run, epoch):
        if next(count) == stop:
            raise KeyboardInterrupt
        original(run, epoch)

    monkeypatch.setattr(network, "train_one_epoch", stops)
    workspace = Workspace(checkpoints=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        recipe.run(4, workspace)
    monkeypatch.setattr(network, "train_one_epoch", original)
    assert numbers(recipe.run(4, workspace)) == straight


def test_a_checkpoint_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "state.pt"
    save_checkpoint({"epoch": 1}, path)

    def breaks(state, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", breaks)
    with pytest.raises(LabError, match="No space left on device"):
        save_checkpoint({"epoch": 2}, path)
    assert load_checkpoint(path) == {"epoch": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["state.pt"]


def test_a_damaged_checkpoint_is_named(tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(LabError, match=r"state\.pt is damaged"):
        load_checkpoint(path)
    assert load_checkpoint(tmp_path / "other.pt") is None
