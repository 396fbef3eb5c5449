"""Networks under torchrun: the rows are those of one process."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial

import processes as launched
import pytest
import torch
import torch.distributed as dist
from torchrun import torchrun

from gradorder_lab.commands import reproduce
from gradorder_lab.errors import LabError
from gradorder_lab.paper import grey_images, network
from gradorder_lab.paper.network import NeuralRecipe
from gradorder_lab.runs import processes
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.runs.store import Store

WORLD = 3
COUNTS = ("epoch", "updates", "trained", "scored", "forward", "backward")
MEASURED = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
SMALL = NeuralRecipe(
    # 290 in batches of 54, halves in batches of 27: every last batch is cut in uneven slices
    experiment="test",
    data="mnist",
    size="mini",
    num_train=290,
    model="2-layer",
    batch_size=54,
    epochs=3,
    momentum=0.9,
    step_size=0.03,
)
SAME = {
    "random": SMALL,
    "augmented": replace(SMALL, augment=True),
    "convolutions": replace(SMALL, model="7-layer", step_size=0.3, method="full ordered", sort="first", epochs=1),
    "mini random": replace(SMALL, method="mini random", start_epoch=1),
    "first": replace(SMALL, method="full ordered", sort="first"),
    "dealt": replace(SMALL, method="mini ordered", sort="first dealt", score="loss", start_epoch=1),
}
OWN_WAY = {
    "within": replace(SMALL, method="mini ordered", sort="within", num_train=540),  # 54 and 18: halves are whole
    "BatchNorm": replace(
        SMALL, data="cifar10", model="resnet20", width=4, num_train=120, method="full ordered", sort="first"
    ),
}
RECIPES = SAME | OWN_WAY


def rows_of_all():
    rows = {name: recipe.run(4) for name, recipe in RECIPES.items()}
    return {name: {column: values.tolist() for column, values in found.items()} for name, found in rows.items()}


@cache
def together():
    return launched.run(rows_of_all, WORLD, timeout=300)


@pytest.fixture(scope="module")
def alone():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield rows_of_all()
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", RECIPES)
def test_every_example_and_pass_is_counted_once(name, alone):
    for rank in together():
        assert {column: rank[name][column] for column in COUNTS} == {column: alone[name][column] for column in COUNTS}


@pytest.mark.parametrize("name", SAME)
def test_the_rows_are_those_of_one_process(name, alone):
    for column in MEASURED:
        assert together()[0][name][column] == pytest.approx(alone[name][column], rel=2e-6)
    assert alone[name]["train_loss"][-1] != pytest.approx(alone[name]["train_loss"][0], rel=1e-3)  # it has moved


@pytest.mark.parametrize("name", RECIPES)
def test_all_processes_measure_the_same(name):
    for rank in together()[1:]:
        assert {column: rank[name][column] for column in MEASURED} == {
            column: together()[0][name][column] for column in MEASURED
        }


def test_a_slice_of_its_own_selects_and_normalises_otherwise_but_learns_as_much(alone):
    for name in OWN_WAY:
        assert together()[0][name]["train_loss"][1:] != pytest.approx(alone[name]["train_loss"][1:], rel=1e-5)
    (within, whole), column = (rows["within"] for rows in (together()[0], alone)), "test_accuracy"
    assert within[column][-1] == pytest.approx(whole[column][-1], abs=6)
    assert within[column][-1] > within[column][0] + 50


# ---------------------------------------------------------------- parts


def slices_of_a_score():
    run = network.begin(
        replace(SMALL, num_train=1100, method="full ordered", sort="first"), 0, Workspace()
    )  # parts of 500, 500, 100
    own = [len(part) for part in processes.own(torch.arange(1100).split(500))]
    return own, run.scores(), run.cost.scored


def test_scores_are_those_of_one_process_to_the_bit():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    _, expected, _ = slices_of_a_score()
    torch.set_num_threads(before)
    for world, shares in ((2, [[500, 100], [500]]), (4, [[500], [500], [100], []])):
        batch = {2: 54, 4: 52}[world]
        found = launched.run(slices_of_a_score_with, world, batch)
        assert [own for own, _, _ in found] == shares
        assert [scored for _, _, scored in found] == [sum(share) for share in shares]
        for _, scores, _ in found:
            assert torch.equal(scores, expected)


def slices_of_a_score_with(batch_size):
    globals()["SMALL"] = replace(SMALL, batch_size=batch_size)
    return slices_of_a_score()


def running_statistics():
    """Of a network after an epoch, on this process, and what each process's own were before they were averaged."""
    run = network.begin(OWN_WAY["BatchNorm"], 0, Workspace())
    settle, own = run.settle, []
    run.settle = lambda before: (own.extend(buffer.clone() for buffer in run.model.buffers()), settle(before))
    network.train_one_epoch(run, 0)
    return own, [buffer.clone() for buffer in run.model.buffers()], [one.detach() for one in run.model.parameters()]


def test_running_statistics_are_the_mean_of_the_processes():
    found = launched.run(running_statistics, 2)
    (first, averaged, weights), (second, averaged_too, weights_too) = found
    assert not all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    for one, other, mean in zip(first, second, averaged, strict=True):
        torch.testing.assert_close(mean, (one + other) / 2 if one.is_floating_point() else one)
    for ours, theirs in ((averaged, averaged_too), (weights, weights_too)):
        assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def averaged(sizes):
    """The mean of tensors whose sum in float32 depends on the order: 1e8 + 1 - 1e8 is 0, and 1e8 - 1e8 + 1 is 1."""
    number = (1e8, 1.0, -1e8, 3.0)[dist.get_rank()]
    tensors = [torch.full((size, 2), number) for size in sizes]
    columns = torch.full((2, 3, 4, 5), number).to(memory_format=torch.channels_last)
    count = torch.tensor(7)
    processes.average_([*tensors, columns, count])
    assert count == 7
    return [*tensors, columns]


def test_a_mean_is_summed_in_the_order_of_the_ranks_whatever_else_is_averaged():
    for sizes in ((1,), (3, 1, 70_000), (70_000, 0, 3)):
        for rank in launched.run(averaged, 4, sizes):
            for tensor in rank:
                assert torch.equal(tensor, torch.full_like(tensor, 0.75))  # (((1e8 + 1) - 1e8) + 3) / 4


def started_from_other_weights():
    original = network.started
    network.started = lambda build, seed: original(build, seed + dist.get_rank())
    run = network.begin(SMALL, 0, Workspace())
    network.started = original
    return [one.detach() for one in run.model.parameters()]


def test_all_processes_start_from_the_weights_of_the_first():
    first, second = launched.run(started_from_other_weights, 2)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_the_identity_of_a_checkpoint_is_that_of_before_for_one_process(tmp_path, monkeypatch):
    recipe = replace(grey_images.grey_recipe("mnist", "mini", "2-layer", 128, ("mini ordered", "first")), epochs=3)
    workspace = Workspace(checkpoints=tmp_path)
    assert recipe.checkpoint(1, workspace).name == "0a370e0d2eda44ce06315f63.pt"
    monkeypatch.setattr("gradorder_lab.paper.network.world_size", lambda: 2)
    other = recipe.checkpoint(1, workspace)
    monkeypatch.setattr("gradorder_lab.paper.network.world_size", lambda: 4)
    assert len({other, recipe.checkpoint(1, workspace), tmp_path / "0a370e0d2eda44ce06315f63.pt"}) == 3


def stopped_and_resumed(folder, stop):
    """Stopped in an epoch and run again; only the first process can see the checkpoints."""
    workspace = Workspace(checkpoints=folder if dist.get_rank() == 0 else folder / "nothing here")
    recipe = RECIPES["dealt"]
    straight = recipe.run(4)
    original, count = network.train_one_epoch, itertools.count()

    def stops(run, epoch):
        if next(count) == stop:
            raise KeyboardInterrupt
        original(run, epoch)

    network.train_one_epoch = stops
    with pytest.raises(KeyboardInterrupt):
        recipe.run(4, workspace)
    network.train_one_epoch, count = original, itertools.count()
    epochs = []
    network.train_one_epoch = lambda run, epoch: (epochs.append(epoch), original(run, epoch))
    resumed = recipe.run(4, workspace)
    network.train_one_epoch = original
    assert not (folder / "nothing here").exists()
    return epochs, all(straight[column].tolist() == resumed[column].tolist() for column in COUNTS + MEASURED)


@pytest.mark.parametrize("stop", [1, 2])
def test_all_processes_go_on_from_the_checkpoint_of_the_first(tmp_path, stop):
    for epochs, is_same in launched.run(stopped_and_resumed, WORLD, tmp_path, stop):
        assert epochs == list(range(stop, 3))
        assert is_same


def damaged(folder):
    workspace = Workspace(checkpoints=folder)
    if dist.get_rank() == 0:
        path = SMALL.checkpoint(0, workspace)
        path.write_bytes(b"not a checkpoint")
    with pytest.raises(LabError if dist.get_rank() == 0 else RuntimeError) as caught:
        SMALL.run(0, workspace)
    return str(caught.value)


def test_a_damaged_checkpoint_stops_all(tmp_path):
    first, second = launched.run(damaged, 2, tmp_path)
    assert "is damaged: remove it" in first
    assert second == "reading the checkpoint failed on rank 0: see the error there"


def not_to_be_divided():
    with pytest.raises(LabError) as caught:
        replace(SMALL, batch_size=50).run(0)
    return str(caught.value)


def test_a_batch_that_cannot_be_shared_is_named():
    for said in launched.run(not_to_be_divided, WORLD):
        assert said == "test, full random: batch_size must be divisible by num_replicas=3, got 50"


def left_often(folder):
    """Groups that the laboratory forms and leaves, one after the other, each met in a file of its own."""
    rank, num, form = dist.get_rank(), dist.get_world_size(), dist.init_process_group
    dist.destroy_process_group()
    for count in range(40):
        meeting = f"file://{folder}/{count}"
        dist.init_process_group = partial(form, init_method=meeting, rank=rank, world_size=num)
        with processes.process_group("cpu"):
            processes.average_([torch.randn(20_000)])
            processes.tell(None) if processes.is_first() else processes.listen()
    return dist.is_initialized()


def test_a_group_can_be_left_just_after_something_was_said(tmp_path):
    """With torch 2.6 one that is then taken apart may wait for ever."""
    assert launched.run(left_often, WORLD, tmp_path) == [False] * WORLD


# ---------------------------------------------------------------- the command

FEWER_RUNS = """
from dataclasses import replace
from gradorder_lab import paper
from gradorder_lab.runs import sweep
from gradorder_lab.cli import main
from gradorder_lab.training.network import NetworkRun
full = dict(paper.EXPERIMENTS)
few = lambda size: [replace(one, num_train=300) for one in full["mnist"].recipes(size)[:3]]
paper.EXPERIMENTS["mnist"] = replace(full["mnist"], recipes=few)
"""


def program_in(folder, also=""):
    """`gradorder`, with three small runs for all of mnist's."""
    program = folder / "program.py"
    program.write_text(f"{FEWER_RUNS}\n{also}\nif __name__ == '__main__':\n    main()\n")
    return program


def few_runs():
    """The runs of the program above."""
    return [replace(one, num_train=300) for one in grey_images.grey_recipes("mnist", "mini")[:3]]


def test_the_command_trains_on_all_processes_and_one_writes(tmp_path):
    out = tmp_path / "out"
    arguments = ("reproduce", "mnist", "synthetic-far", "--seeds", "2", "--jobs", "1", "--out", str(out))
    launch = partial(torchrun, program_in(tmp_path), *arguments)
    result = launch()
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Page: ") == 1
    with Store(out) as store:
        (facts,) = store.environments()
        assert facts["processes"] == 2
        for recipe in few_runs():
            rows = store.rows(recipe)
            assert sorted(rows) == [0, 1]
            straight = recipe.run(1)
            for column in COUNTS:
                assert rows[1][column].tolist() == straight[column].tolist()
        num_runs = store.num_runs()
        assert num_runs > 6  # the other experiment is there too, run by the first process
    assert not (out / "checkpoints").exists()
    again = launch()
    assert again.returncode == 0, again.stderr
    with Store(out) as store:
        assert store.num_runs() == num_runs


@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_on_one_process_ends_all(tmp_path, rank):
    breaks = f"""
original = NetworkRun.update
def update(self, *arguments):
    import torch.distributed as dist
    if dist.get_rank() == {rank} and self.cost.updates == 4:
        raise ValueError("the fifth step is one too many")
    return original(self, *arguments)
NetworkRun.update = update
"""
    # What torchrun says of it is looked at too: it is started as it is on a command line.
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--monitor-interval=0.2"]
    command += ["--nproc-per-node=2", program_in(tmp_path, breaks), "reproduce", "mnist", "--out", tmp_path / "out"]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": paths}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 1
    assert "ValueError: the fifth step is one too many" in result.stderr
    assert result.stderr.count("Traceback (most recent call last)") <= 2  # of the error, and torchrun's own


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cluster": "tcp://here:1"}, "--cluster must not be given under torchrun"),
        ({"device": "mps"}, "--device must be one of cpu, cuda under torchrun, got mps"),
    ],
)
def test_what_torchrun_cannot_do_is_refused(tmp_path, monkeypatch, settings, said):
    for name, value in {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LabError, match=said):
        reproduce.reproduce(["mnist"], tmp_path, reproduce.Reproduction(**settings))


def test_torchrun_with_one_process_is_no_group(monkeypatch):
    for name, value in {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with processes.process_group("mps"):
        assert not dist.is_initialized()
        assert processes.is_first()
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    monkeypatch.setenv("WORLD_SIZE", "8")  # of something else than torchrun
    assert processes.num_launched() == 1


def test_started_as_a_module_it_is_the_same_command():
    result = subprocess.run(
        [sys.executable, "-m", "gradorder_lab", "list"], capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert "cifar10" in result.stdout
