import re

import torch

from gradorder_lab import datasets, reproduction
from gradorder_lab.data_hashes import FACT, data_hashes, image_hash, problem_hash
from gradorder_lab.experiments import EXPERIMENTS
from gradorder_lab.store import Store


def test_problems_and_data_sets_have_hashes_of_their_own():
    asked = [EXPERIMENTS[name] for name in ("iris", "selection", "mnist", "fashion-mnist", "bounds")]
    found = data_hashes(asked, "mini", None)
    problems = {"synthetic", "iris literal", "iris scaled", "boston literal", "boston scaled"}
    assert {name.removeprefix(FACT) for name in found} == problems | {"mnist, mini", "fashion-mnist, mini"}
    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch("[0-9a-f]{16}", value) for value in found.values())


def test_a_hash_is_that_of_the_numbers(monkeypatch):
    before = image_hash("mnist", "mini", None)
    assert image_hash("mnist", "mini", None) == before
    load = datasets.load

    def changed(name, **settings):
        train, test = load(name, **settings)
        images = train.images.clone()
        images[-1, 0, 5, 5] ^= 1
        return datasets.ImageDataset(images, train.labels, train.class_names, train.mean, train.std), test

    monkeypatch.setattr(datasets, "load", changed)
    assert image_hash("mnist", "mini", None) != before
    assert problem_hash("iris literal") == problem_hash("iris literal") != problem_hash("iris scaled")


def test_data_that_is_not_there_has_none(monkeypatch):
    def nowhere(*_, **__):
        raise datasets.DatasetNotFoundError("nowhere")

    monkeypatch.setattr(datasets, "load", nowhere)
    assert data_hashes([EXPERIMENTS["mnist"]], "cpu", None) == {}


def test_reproduce_notes_them(tmp_path):
    reproduction.reproduce(["synthetic-far"], tmp_path, reproduction.Settings(seeds=1))
    with Store(tmp_path) as store:
        (facts,) = store.environments()
    assert facts[f"{FACT}far"] == problem_hash("far")
    assert facts["torch"] == torch.__version__.split("+")[0] or facts["torch"] == torch.__version__
