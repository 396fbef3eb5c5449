"""Real runs of every method on a tiny file, and what the command makes of it."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from trainings import plain, split_of

import gradorder as go
from gradorder_lab.benchmark.contest import Contest
from gradorder_lab.benchmark.recipe import CompareRecipe
from gradorder_lab.benchmark.rows import BENCHMARK_RESULTS, read_rows
from gradorder_lab.benchmark.running import compared, in_random_order
from gradorder_lab.benchmark.task import Task
from gradorder_lab.commands import compare as command
from gradorder_lab.errors import LabError
from gradorder_lab.methods import BASELINE, FIXED_BUDGET, METHODS, RANDOM_STRATIFIED, RECOMMENDED
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.runs.sweep import Piece
from gradorder_lab.training.network import NetworkRun


@pytest.fixture(scope="module")
def own_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    inputs = (np.eye(3)[labels] * 2 + rng.standard_normal((400, 3))).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "own.npz"
    np.savez(path, x_train=inputs[:300], y_train=labels[:300], x_test=inputs[300:], y_test=labels[300:])
    return path


@pytest.fixture
def own_task(own_file):
    return Task("own", str(own_file), "2-layer", epochs=4, batch_size=30, step_sizes=(0.05,))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:epoch .* has .* steps")
def test_every_method_learns_and_counts(method, own_task):
    recipe = CompareRecipe.of(own_task, method, 0.05, 0.8)
    first, again = recipe.run(seed=1), recipe.run(seed=1)
    assert first["test_accuracy"][0] > 70
    for name in ("test_accuracy", "test_loss", "updates", "trained", "forward", "backward"):
        assert np.array_equal(first[name], again[name]), name
    scored_exactly = {"paper: sort first": 600, "paper: sort first half": 900, "paper: sort within": 750}
    assert first["backward"][0] == first["trained"][0] + scored_exactly.get(method, 0)
    assert 0 < first["trained"][0] <= first["forward"][0]
    # plain training takes 1200; methods that score first have less left to train with
    assert 0.2 * 1200 < first["trained"][0] <= 1200


@pytest.mark.parametrize("method", [BASELINE, FIXED_BUDGET, "InfoBatch"])
@pytest.mark.filterwarnings("ignore:epoch .* has .* steps")
def test_training_that_diverges_is_judged_by_what_it_has(method, own_task):
    rows = CompareRecipe.of(own_task, method, 1e30, 0.8).run(seed=0)
    assert 0 <= rows["test_accuracy"][0] < 70
    assert rows["trained"][0] > 0


def test_plain_training_is_the_loop_by_hand(own_task, own_file):
    rows = CompareRecipe.of(own_task, BASELINE, 0.05, 1.0).run(seed=2)
    split = split_of(own_task, None, validates=False)
    model = plain(own_task).network(split, seed=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = go.OrderedSampler(300, 30, ordering=go.Shuffled(), seed=2)
    with np.load(own_file) as file:
        inputs, labels = torch.from_numpy(file["x_train"]), torch.from_numpy(file["y_train"])
        test_inputs, test_labels = torch.from_numpy(file["x_test"]), torch.from_numpy(file["y_test"])
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for number, batch in enumerate(torch.tensor(list(sampler)).split(30)):
            optimizer.param_groups[0]["lr"] = 0.05 * (1 + np.cos(np.pi * (epoch + number / 10) / 4)) / 2
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    accuracy = 100 * (model(test_inputs).argmax(1) == test_labels).float().mean()
    assert rows["test_accuracy"][0] == pytest.approx(float(accuracy))
    assert rows["trained"][0] == 1200
    assert rows["updates"][0] == 40


@pytest.fixture
def step_sizes(monkeypatch):
    """Those of the runs that follow, step by step."""
    seen: list[float] = []
    update = NetworkRun.update

    def spied(run, *arguments):
        seen.append(arguments[-1])
        return update(run, *arguments)

    monkeypatch.setattr(NetworkRun, "update", spied)
    return seen


def half_a_cosine(progress):
    return 0.05 * (1 + np.cos(np.pi * np.asarray(progress))) / 2


def test_the_learning_rate_falls_over_the_epochs_whatever_their_lengths(own_task, step_sizes):
    CompareRecipe.of(own_task, FIXED_BUDGET, 0.05, 0.6).run(seed=0)
    lengths = [10, 2, 2, 10]
    progress = [(epoch + step / length) / 4 for epoch, length in enumerate(lengths) for step in range(length)]
    assert list(step_sizes) == pytest.approx(half_a_cosine(progress).tolist(), abs=1e-12)


@pytest.mark.parametrize(("budget", "epochs"), [(1.0, 4), (0.4, 2), (0.1, 1)])
def test_the_default_runs_until_its_sampler_ends_the_run(own_task, step_sizes, budget, epochs):
    """As a user has it: sampler.run() with ProgressLR."""
    rows = CompareRecipe.of(own_task, RECOMMENDED, 0.05, budget).run(seed=3)
    rates = list(step_sizes)
    split = split_of(own_task, None, validates=False)
    model = plain(own_task).network(split, seed=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs, labels = split.train.batch(torch.arange(300))
    dataset = torch.utils.data.TensorDataset(inputs, labels)
    sampler = go.recommended(dataset, 30, epochs=epochs, labels=labels, seed=3)
    loader, scheduler = sampler.loader(dataset), go.ProgressLR(optimizer, sampler)
    expected, trained = [], 0
    for _ in sampler.run():
        for some_inputs, some_labels in loader:
            expected.append(optimizer.param_groups[0]["lr"])
            losses = torch.nn.functional.cross_entropy(model(some_inputs), some_labels, reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            trained += len(losses)
            sampler.step(losses.detach())
            scheduler.step()
    assert rates == pytest.approx(expected, abs=1e-12)
    assert rows["trained"].tolist() == [trained]
    assert rows["epoch"][0] >= epochs
    assert trained < 300 * epochs or epochs < 4  # something is skipped in the long run
    test_inputs, test_labels = split.test.batch(torch.arange(100))
    loss = torch.nn.functional.cross_entropy(model(test_inputs), test_labels).detach()
    assert rows["test_loss"][0] == pytest.approx(float(loss), rel=1e-6)


def test_where_nothing_is_skipped_the_default_is_random_stratified(own_task):
    found = [CompareRecipe.of(own_task, name, 0.05, 0.25).run(seed=0) for name in (RECOMMENDED, RANDOM_STRATIFIED)]
    for name in ("test_loss", "test_accuracy", "trained", "updates"):
        assert found[0][name].tolist() == found[1][name].tolist()


@pytest.mark.filterwarnings("ignore:epoch .* has .* steps")
@pytest.mark.parametrize("method", ["InfoBatch", "SeTa", "IES", "OrderDP", "RePB", "RS2"])
def test_published_rules_have_their_own_epochs_and_the_step_size_falls_over_them(own_task, step_sizes, method):
    rows = CompareRecipe.of(own_task, method, 0.05, 1.0).run(seed=0)
    assert rows["epoch"].tolist() == [4]
    assert step_sizes[0] == pytest.approx(0.05)
    assert len(step_sizes) == 40 if method == "IES" else 12 <= len(step_sizes) < 40  # IES: four losses come first
    assert set(half_a_cosine(np.arange(4) / 4).round(12)) <= set(np.round(step_sizes, 12))


def test_kakurenbo_multiplies_the_learning_rate(own_task, step_sizes):
    CompareRecipe.of(own_task, "KAKURENBO", 0.05, 1.0).run(seed=0)
    factors = [1, 1 / (1 - 0.3), 1 / (1 - 0.24), 1 / (1 - 0.18)]  # epoch 2 is past 30% of 4 epochs, epoch 3 past 60%
    expected = set((half_a_cosine(np.arange(4) / 4) * factors).round(12))
    assert expected <= set(np.round(step_sizes, 12))


def test_skipped_examples_are_evaluated_before_the_next_epoch(own_task):
    rows = CompareRecipe.of(own_task, "KAKURENBO", 0.05, 1.0).run(seed=0)
    skipped = 1200 - rows["trained"][0]
    assert skipped > 0
    assert 0 < rows["scored"][0] < skipped  # those of the last epoch are not
    assert rows["forward"][0] == rows["trained"][0] + rows["scored"][0]
    assert rows["backward"][0] == rows["trained"][0]
    assert rows["score_seconds"][0] > 0


@pytest.mark.parametrize(("budget", "steps"), [(0.2, 8), (0.36, 14), (0.5, 20), (0.9, 36), (1.0, 40)])
def test_every_budget_is_cut_to_whole_steps(own_task, step_sizes, budget, steps):
    rows = CompareRecipe.of(own_task, BASELINE, 0.05, budget).run(seed=0)
    assert rows["updates"].tolist() == [steps]
    assert rows["trained"].tolist() == [30 * steps]
    progress = np.arange(steps) / 10 / (4 * budget)  # the run has 4 * budget epochs of 10 steps
    assert list(step_sizes) == pytest.approx(half_a_cosine(progress).tolist(), abs=1e-12)


def test_less_than_an_epoch_is_run_by_what_scores_first(own_task):
    rows = CompareRecipe.of(own_task, "paper: sort first", 0.05, 0.2).run(seed=0)
    assert rows["updates"].tolist() == [4]  # 0.8 epochs' worth, of which scoring takes 0.8 / 1.8
    assert rows["scored"].tolist() == [300]


@pytest.mark.filterwarnings("ignore:epoch .* has .* steps")
def test_where_nobody_knows_the_steps_the_last_epoch_is_cut_too(own_task, step_sizes):
    CompareRecipe.of(own_task, "InfoBatch", 0.05, 0.3).run(seed=0)  # 1.2 epochs
    assert step_sizes[:10] == pytest.approx(half_a_cosine(np.arange(10) / 12), abs=1e-9)
    assert 0 < step_sizes[-1] < 0.02
    assert 11 <= len(step_sizes) <= 12


def test_wrong_labels_and_rare_classes_are_drawn_anew_with_every_seed(own_task):
    spoilt = replace(own_task, wrong_labels=0.3)
    one, again, other = (split_of(spoilt, None, validates=False, seed=seed).train.labels for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    right = split_of(own_task, None, validates=False).train.labels
    assert 0.2 < (one != right).float().mean() < 0.4
    rare = replace(own_task, rarest=0.1)
    sizes = [split_of(rare, None, validates=True, seed=seed) for seed in (1, 2)]
    assert not torch.equal(sizes[0].train.positions, sizes[1].train.positions)
    assert torch.equal(sizes[0].held_out.labels, sizes[1].held_out.labels)  # the held-out part stays


def test_methods_of_a_seed_take_turns_by_chance_and_in_the_same_order_when_it_goes_on(own_task):
    recipes = [CompareRecipe.of(own_task, method, 0.05, budget) for method in METHODS for budget in (0.5, 1.0)]
    pieces = [Piece((recipe,), seed, Workspace()) for recipe in recipes for seed in (0, 1)]
    order = in_random_order(pieces)
    assert [piece.seed for piece in order] == [0] * len(recipes) + [1] * len(recipes)
    first, second = ([piece.recipes[0] for piece in order if piece.seed == seed] for seed in (0, 1))
    assert set(first) == set(second) == set(recipes)
    assert first != recipes
    assert first != second
    assert in_random_order(order[5:]) == order[5:]


def test_validation_never_sees_the_test_set(own_task):
    held = split_of(own_task, None, validates=True)
    whole = split_of(own_task, None, validates=False)
    assert len(held.train) + len(held.held_out) == len(whole.train) == 300
    test_inputs, _ = whole.test.batch(torch.arange(100))
    for part in (held.train, held.held_out):
        inputs, _ = part.batch(torch.arange(len(part)))
        assert not (inputs[:, None] == test_inputs[None]).all(2).any()


def test_what_chooses_a_step_size_is_not_spoilt(own_task):
    """The test set is not, so held-out examples with rare classes or wrong labels would choose for another one."""
    whole = split_of(own_task, None, validates=True)
    spoilt = split_of(replace(own_task, rarest=0.1, wrong_labels=0.3), None, validates=True)
    assert torch.equal(spoilt.held_out.labels, whole.held_out.labels)
    assert len(spoilt.train) < 0.6 * len(whole.train)


def test_a_comparison_goes_on_where_it_was_stopped(own_task, tmp_path, monkeypatch):
    contest = Contest(own_task, (BASELINE, FIXED_BUDGET), (0.8, 1.0), seeds=2)
    settings = {"jobs": 1, "data": None, "console": Console(quiet=True)}
    first = compared(contest, tmp_path, **settings)
    monkeypatch.setattr(CompareRecipe, "run", lambda *_: pytest.fail("everything is there"))
    again = compared(contest, tmp_path, **settings)
    assert first == again
    assert sorted((run.method, run.budget, run.seed) for run in first) == [
        (method, budget, seed) for method in (BASELINE, FIXED_BUDGET) for budget in (0.8, 1.0) for seed in (0, 1)
    ]


def test_the_command_probes_compares_and_prints(own_task, tmp_path, capsys):
    settings = command.ComparisonRequest(own_task, methods=(FIXED_BUDGET,), budgets=(0.8,), seeds=2)
    command.compare(settings, tmp_path)
    told = capsys.readouterr().out
    assert re.search(r"all about [\d.]+ (s|min)", told)
    assert "own: runs that count" in told
    assert "target" in told
    assert FIXED_BUDGET in told
    assert "random reshuffling" in told
    assert "8 trainings" in " ".join(told.split())
    assert len(read_rows(tmp_path / BENCHMARK_RESULTS)) == 8
    assert f"Page: {tmp_path / 'compare.html'}" in told
    page = html.unescape((tmp_path / "compare.html").read_text())
    assert answer_of(told) in page
    assert "fashion" not in page  # the benchmark that comes along is somebody else's


def answer_of(told):
    return " ".join(told.split()).partition("(one invocation). ")[2].partition(" To know this")[0]


def test_a_directory_may_hold_more_than_is_asked_for(own_task, tmp_path, capsys):
    """Another number of seeds, other budgets, another method, a search: only what is asked for counts."""
    asked = command.ComparisonRequest(own_task, methods=("paired reversal",), budgets=(0.8,), seeds=2)
    command.compare(replace(asked, budgets=(0.5,), seeds=1, methods=("shuffle once",)), tmp_path)
    searching = replace(own_task, step_sizes=(0.02, 0.04))
    command.compare(replace(asked, task=searching, seeds=1), tmp_path)
    capsys.readouterr()
    command.compare(asked, tmp_path)
    told = " ".join(capsys.readouterr().out.split())
    assert "; 1 are there already" in told  # plain training with seed 0
    assert "shuffle once" not in told
    assert "2 seeds" in told
    assert "8 trainings" in told


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ("best one",)}, "--method must be one of: random reshuffling, .*; got 'best one'"),
        ({"budgets": (1.5,)}, r"--budget must be in \(0, 1\], got 1.5"),
        (
            {"budgets": (0.3,), "methods": (FIXED_BUDGET,)},
            "recommended fixed budget cannot have --budget 0.3 with --epochs 4: budget must be more than 0.5",
        ),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(own_task, change, message):
    with pytest.raises(LabError, match=message):
        command.planned(command.ComparisonRequest(own_task, **change))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (None, "--data must be one of mnist, .* or an .npz file"),
        ({"x_train": np.ones((3, 2))}, r"wrong.npz must hold arrays .*, got no y_train"),
        (
            {"y_train": np.zeros(3), "y_test": np.zeros(3)},
            r"wrong.npz: y_train must hold one whole number .* y.ravel\(\).astype\(int\) .* function with --losses",
        ),
        ({"y_train": np.array(["a", "b", "c"])}, r"wrong.npz: y_train must hold numbers, got <U1"),
        ({"y_train": np.array([0, None, 1])}, r"wrong.npz must be an .npz file with numeric arrays .*: Object arrays"),
        ({"x_test": np.full((3, 2), np.nan)}, r"wrong.npz: x_test must be finite, .* got nan at \[0, 0\]"),
        ({"x_test": np.full((3, 2), 1e60)}, r"x_test must be finite, also in float32, got 1e\+60 at \[0, 0\]"),
        ({"x_test": np.ones((3, 5))}, r"a row of x_test must be like one of x_train, shape \(2,\) .*, got \(5,\)"),
        ({"x_test": np.ones((3, 2), dtype=int)}, "a row of x_test must be like one of x_train, .* got .*int64"),
        ({"y_train": np.zeros(3, dtype=int)}, "y_train must hold two classes at least, got 0 only"),
        (
            {"y_train": np.zeros((3, 2), dtype=int), "y_test": np.zeros((3, 2), dtype=int)},
            "y_train must hold one whole number per example",
        ),
        ({"y_train": np.array([0, 1])}, "y_train must have one row per row of x_train"),
        ({"y_test": np.array(1)}, "y_test must have one row per row of x_test"),
        ({"y_test": np.array([0, -1, 1])}, "y_test must hold classes 0, 1, 2, ..., got -1"),
        (
            {"y_train": np.array([0, 9, 1])},
            "must hold classes 0, 1, 2, ..., fewer than examples, got 9 with 3 examples",
        ),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, arrays, message):
    path = tmp_path / "wrong.npz"
    if arrays is not None:
        good = {"x_train": np.ones((3, 2)), "y_train": np.arange(3), "x_test": np.ones((3, 2)), "y_test": np.arange(3)}
        np.savez(path, allow_pickle=True, **(arrays if "x_train" in arrays else good | arrays))
    with pytest.raises(LabError, match=message):
        split_of(Task("wrong", str(path), "2-layer", epochs=1), None, validates=False)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_broken_file_is_refused_in_one_line(own_file, tmp_path, kept):
    path = tmp_path / "broken.npz"
    content = own_file.read_bytes()
    path.write_bytes(content[: round(kept * len(content))])
    with pytest.raises(LabError, match=r"broken.npz must be an .npz file") as raised:
        split_of(Task("broken", str(path), "2-layer", epochs=1))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("data", "losses", "margin"),
    [
        ("terrain", None, 0.1),
        ("fashion-mnist-mini", None, 0.1),
        ("cifar10", None, 0.5),
        ("sst2", None, 0.5),
        ("mine.npz", None, 0.1),
        ("mine.npz", "mine:losses", 1.0),
    ],
)
def test_the_margin_is_fixed_by_the_kind_of_data(data, losses, margin):
    assert Task("a", data, "2-layer", epochs=1, losses=losses).margin == margin


def test_a_model_of_ones_own(own_task, tmp_path, monkeypatch):
    (tmp_path / "own_models.py").write_text(
        "from torch import nn\n\n\ndef linear(classes, inputs):\n    return nn.Linear(inputs[0], classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    split = split_of(own_task, None, validates=False)
    model = plain(replace(own_task, model="own_models:linear")).network(split, seed=0)
    assert model.weight.shape == (3, 3)
    assert torch.equal(model.weight, plain(replace(own_task, model="own_models:linear")).network(split, seed=0).weight)
    assert not torch.equal(
        model.weight, plain(replace(own_task, model="own_models:linear")).network(split, seed=1).weight
    )
    for name in ("nowhere:made", "own_models:other"):
        with pytest.raises(LabError, match=f"--model '{name}' must name something that can be imported"):
            plain(replace(own_task, model=name)).network(split, seed=0)
    with pytest.raises(LabError, match=r"--model must be one of 2-layer, .* got 'own_models'"):
        plain(replace(own_task, model="own_models")).network(split, seed=0)


def test_a_changed_file_or_network_is_another_task(own_task, own_file, tmp_path, monkeypatch):
    copy, code = tmp_path / "copy.npz", tmp_path / "changing_models.py"
    copy.write_bytes(own_file.read_bytes())
    code.write_text(
        "from torch import nn\n\n\ndef linear(classes, inputs):\n    return nn.Linear(inputs[0], classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task_ = replace(own_task, data=str(copy), model="changing_models:linear")
    asked = command.ComparisonRequest(task_, methods=(RANDOM_STRATIFIED,))
    first = command.planned(asked).task
    assert command.planned(asked).task == first
    rows = CompareRecipe.of(first, BASELINE, 0.05, 1.0).run(0, Workspace(data=copy))
    assert rows["trained"][0] == 1200
    code.write_text(code.read_text() + "# changed\n")
    assert command.planned(asked).task.model != first.model
    with np.load(own_file) as file:
        np.savez(copy, **{**file, "x_train": file["x_train"] + 1})
    assert command.planned(asked).task.data != first.data
    with pytest.raises(LabError, match="is another one"):
        split_of(first, copy, validates=True)


def test_the_same_data_at_another_place_have_the_same_rows(own_task, own_file, tmp_path, monkeypatch, capsys):
    moved = tmp_path / "elsewhere" / "renamed.npz"
    moved.parent.mkdir()
    moved.write_bytes(own_file.read_bytes())
    asked = command.ComparisonRequest(own_task, methods=(BASELINE,), budgets=(1.0,), seeds=1)
    command.compare(asked, tmp_path / "out")
    monkeypatch.setattr(CompareRecipe, "run", lambda *_: pytest.fail("everything is there"))
    command.compare(replace(asked, task=replace(own_task, data=str(moved))), tmp_path / "out")
    first, again = capsys.readouterr().out.split("A probe of")[1:]
    assert first.partition("target")[2] == again.partition("target")[2]


def test_flips_are_the_same_for_every_method_and_change_what_is_learned():
    still = Task("images", "fashion-mnist-mini", "7-layer", epochs=1)
    flipped, again, unflipped = (plain(one).start(0) for one in (replace(still, flips=True),) * 2 + (still,))
    assert unflipped.augmentation is None
    seen = [run.train.batch(range(40), run.augmentation(3))[0] for run in (flipped, again)]
    original, _ = unflipped.train.batch(range(40))
    assert torch.equal(*seen)
    is_mirrored = [not torch.equal(one, other) for one, other in zip(seen[0], original, strict=True)]
    assert 8 < sum(is_mirrored) < 32
    assert torch.equal(seen[0][is_mirrored], original[is_mirrored].flip(3))
    assert not torch.equal(seen[0], flipped.train.batch(range(40), flipped.augmentation(4))[0])
