import resource
import signal
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from processes import Started, next_line

from gradorder_lab.runs.recipe import Recipe
from gradorder_lab.runs.store import STORE, Store, StoreError, only_one


@dataclass(frozen=True)
class Named(Recipe):
    revision: ClassVar[int] = 1
    name: str

    @property
    def family(self):
        return self.name

    def run(self, seed, workspace=None):
        return {"epoch": np.arange(3.0), "loss": np.array([1 / 3, np.pi * seed, 1e-300])}


@dataclass(frozen=True)
class Revised(Named):
    revision: ClassVar[int] = 2


RECIPE = Named("test", "one")


def test_rows_come_back_to_the_bit(tmp_path):
    with Store(tmp_path, {"python": "3.11"}) as store:
        for seed in (7, 2):
            store.add(RECIPE, seed, RECIPE.run(seed), seconds=0.5)
    with Store(tmp_path) as store:
        rows = store.rows(RECIPE)
        assert list(rows) == [2, 7]
        for seed, columns in rows.items():
            assert list(columns) == ["epoch", "loss"]
            for name, values in RECIPE.run(seed).items():
                assert columns[name].tobytes() == values.tobytes()
        assert store.seeds(RECIPE) == {2, 7}
        assert store.num_runs() == 2
        assert store.environments() == [{"python": "3.11"}]


def test_recipes_are_told_apart_by_experiment_settings_and_revision(tmp_path):
    with Store(tmp_path) as store:
        store.add(RECIPE, 0, RECIPE.run(0), 0.0)
        store.add(Revised("test", "two"), 0, RECIPE.run(0), 0.0)
        for other in (Named("test", "two"), Named("other", "one"), Revised("test", "one")):
            assert store.seeds(other) == set()
            assert store.rows(other) == {}


def test_a_finished_run_is_never_overwritten(tmp_path):
    with Store(tmp_path) as store:
        store.add(RECIPE, 1, RECIPE.run(1), 0.0)
        store.add(RECIPE, 1, RECIPE.run(99), 0.0)
        assert store.rows(RECIPE)[1]["loss"][1] == np.pi


def writes(directory):
    with Store(directory) as store:
        for seed in range(10**6):
            store.add(RECIPE, seed, RECIPE.run(seed), 0.0)
            sys.stdout.write(f"{seed}\n")
            sys.stdout.flush()


@pytest.mark.parametrize("num_written", [1, 7, 50])
def test_what_was_added_survives_kill_9(tmp_path, num_written):
    with Started(writes, tmp_path) as writer:
        said = [next_line(writer.stdout, "the first run to be written")]
        said += [writer.stdout.readline() for _ in range(num_written - 1)]
        writer.process.kill()
        said += writer.stdout.read().split()
    with Store(tmp_path) as store:
        rows = store.rows(RECIPE)
        assert len(said) <= len(rows) <= len(said) + 1  # one may be written and not yet said
        assert list(rows) == list(range(len(rows)))
        for seed, columns in rows.items():
            assert columns["loss"].tolist() == RECIPE.run(seed)["loss"].tolist()


def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path):
    path = tmp_path / STORE
    path.write_bytes(b"not a database, but a text that is long enough to be looked at" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a database"):
        Store(tmp_path)
    assert path.read_bytes() == before


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used: File exists"):
        Store(tmp_path / "file")


def stays_in(directory):
    with only_one(directory):
        sys.stdout.write("in\n")
        sys.stdout.flush()
        signal.pause()


def test_only_one_process_runs_in_a_directory(tmp_path):
    with Started(stays_in, tmp_path) as other:
        assert next_line(other.stdout, "another process to be in the directory") == "in\n"
        with pytest.raises(StoreError, match="another gradorder is running in"), only_one(tmp_path):
            pass
    with only_one(tmp_path):
        pass


def fills(directory):
    """Writes to a file that cannot grow: what a full disk looks like."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    with Store(directory) as store:
        for seed in range(10**6):
            try:
                store.add(RECIPE, seed, RECIPE.run(seed), 0.0)
            except StoreError as error:
                sys.stdout.write(f"{seed} {error}")
                return


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path):
    with Started(fills, tmp_path) as filler:
        (said,) = filler.stdout.read().splitlines()
    num_kept, message = said.split(" ", 1)
    assert "runs.sqlite cannot be used: " in message
    with Store(tmp_path) as store:
        rows = store.rows(RECIPE)
        assert list(rows) == list(range(int(num_kept)))
        assert len(rows) > 10
        store.add(RECIPE, len(rows), RECIPE.run(0), 0.0)  # once there is room again
