import re

import pytest
import torch

from gradorder_lab import data
from gradorder_lab.commands import reproduce
from gradorder_lab.errors import DatasetNotFoundError
from gradorder_lab.models import named
from gradorder_lab.paper import EXPERIMENTS, network
from gradorder_lab.paper.convex import ConvexRecipe, problem_hash
from gradorder_lab.runs.origin import CONTENT, content_facts
from gradorder_lab.runs.store import Store, StoreError


@pytest.fixture(autouse=True)
def _read_again():
    """What is read or made once per process."""
    for kept in (network._hashes, network._images_hash):
        kept.cache_clear()
    yield
    for kept in (network._hashes, network._images_hash):
        kept.cache_clear()


def facts_of(*names, size="mini"):
    return content_facts([recipe for name in names for recipe in EXPERIMENTS[name].recipes(size)], None)


def test_problems_data_sets_and_networks_have_hashes_of_their_own():
    found = facts_of("iris", "selection", "mnist", "fashion-mnist", "bounds")
    problems = {"synthetic", "iris literal", "iris scaled", "boston literal", "boston scaled"}
    images = {"mnist, mini", "fashion-mnist, mini"}
    networks = {"2-layer, for mnist", "2-layer, for fashion-mnist"}
    assert {name.removeprefix(CONTENT) for name in found} == problems | images | networks
    assert len(set(found.values())) == len(found) - 1  # the same network for both
    assert all(re.fullmatch("[0-9a-f]{16}", value) for value in found.values())


def test_a_hash_is_that_of_the_numbers(monkeypatch):
    name = f"{CONTENT}mnist, mini"
    before = facts_of("mnist")[name]
    assert facts_of("mnist")[name] == before
    load = data.load

    def changed(name, **settings):
        train, test = load(name, **settings)
        images = train.images.clone()
        images[-1, 0, 5, 5] ^= 1
        return data.ImageDataset(images, train.labels, train.num_classes, train.mean, train.std), test

    monkeypatch.setattr(data, "load", changed)
    network._images_hash.cache_clear()
    network._hashes.cache_clear()
    assert facts_of("mnist")[name] != before
    assert problem_hash("iris literal") == problem_hash("iris literal") != problem_hash("iris scaled")


def test_a_changed_network_is_noticed(monkeypatch):
    name = f"{CONTENT}2-layer, for mnist"
    before = facts_of("mnist")[name]
    monkeypatch.setitem(named.MODELS, "2-layer", lambda classes, shape, _: named.mlp(784, 100, classes))
    network._hashes.cache_clear()
    assert facts_of("mnist")[name] != before


def test_data_that_is_not_there_has_none(monkeypatch):
    def nowhere(*_, **__):
        raise DatasetNotFoundError("nowhere")

    monkeypatch.setattr(data, "load", nowhere)
    assert facts_of("mnist", size="cpu") == {}


def test_reproduce_notes_them(tmp_path):
    reproduce.reproduce(["synthetic-far"], tmp_path, reproduce.Reproduction(seeds=1))
    with Store(tmp_path) as store:
        (facts,) = store.environments()
    assert facts[f"{CONTENT}far"] == problem_hash("far")
    assert facts["torch"] == torch.__version__.split("+")[0] or facts["torch"] == torch.__version__


def test_runs_on_other_data_are_not_mixed(tmp_path):
    recipe = ConvexRecipe("test", "iris scaled", "random", "constant", 1)
    with Store(tmp_path, {"cpus": 2, f"{CONTENT}iris": "aaaa"}) as store:
        store.add(recipe, 0, recipe.run(0), 0.0)
    with Store(tmp_path, {"cpus": 4, f"{CONTENT}iris": "aaaa", f"{CONTENT}boston": "cccc"}):
        pass
    with pytest.raises(StoreError, match=r"iris \(aaaa, now bbbb\)"):
        Store(tmp_path, {f"{CONTENT}iris": "bbbb"})


def test_what_is_not_there_is_looked_for_once_and_said_before_anything_is_run(monkeypatch, tmp_path):
    asked_for = []

    def not_there(name, **_):
        asked_for.append(name)
        raise DatasetNotFoundError(f"{name} was not found")

    monkeypatch.setattr(data, "load", not_there)
    monkeypatch.setattr(reproduce.sweep, "run_all", lambda *_, **__: pytest.fail("nothing is to be run"))
    assert len(EXPERIMENTS["mnist"].recipes("cpu")) > 10
    with pytest.raises(DatasetNotFoundError, match="mnist was not found"):
        reproduce.reproduce(["iris", "mnist"], tmp_path, reproduce.Reproduction("cpu"))
    assert asked_for == ["mnist"]
