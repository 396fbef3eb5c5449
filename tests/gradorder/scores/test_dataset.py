import builtins
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import gradorder as go

DATA = TensorDataset(
    torch.randn(23, 4, generator=torch.Generator().manual_seed(0)), torch.arange(23) % 3, torch.arange(23)
)
PAIRS = TensorDataset(*DATA.tensors[:2])


def test_the_order_is_that_of_the_dataset_whatever_the_batches():
    model = nn.Linear(4, 3)
    expected = go.GradientNorm()(model, DATA.tensors[:2])
    for settings in ({}, {"batch_size": 5}, {"batch_size": 1}, {"num_workers": 2, "batch_size": 4}):
        scores = go.score_dataset(model, PAIRS, go.GradientNorm(), **settings)
        assert scores.shape == (23,)
        torch.testing.assert_close(scores, expected)


def test_dict_batches_and_a_collate_function():
    class Dicts(Dataset):
        def __len__(self):
            return 7

        def __getitem__(self, index):
            return {"x": PAIRS[index][0], "meta": {"y": PAIRS[index][1], "name": f"example {index}"}}

    def losses(model, batch):
        return nn.functional.cross_entropy(model(batch["x"]), batch["meta"]["y"], reduction="none")

    model = nn.Linear(4, 3)
    expected = go.Loss()(model, PAIRS[:7])
    torch.testing.assert_close(go.score_dataset(model, Dicts(), go.Loss(losses), batch_size=3), expected)

    def collate(examples):
        return torch.stack([example["x"] for example in examples]), torch.stack([e["meta"]["y"] for e in examples])

    scores = go.score_dataset(model, Dicts(), go.Loss(), batch_size=3, collate_fn=collate)
    torch.testing.assert_close(scores, expected)


def test_a_list_is_a_dataset_and_a_function_is_a_score():
    scores = go.score_dataset(nn.Identity(), [3.0, 1.0, 2.0], lambda model, batch: model(batch), batch_size=2)
    assert scores.tolist() == [3.0, 1.0, 2.0]


def test_random_transforms_do_not_disturb_the_run():
    class Noisy(Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return torch.rand(4) * random.random() * np.random.rand(), index % 3

    model = nn.Linear(4, 3)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    go.score_dataset(model, Noisy(), go.Loss())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]


def test_progress_bar(capsys, monkeypatch):
    go.score_dataset(nn.Linear(4, 3), PAIRS, go.Loss(), progress=True)
    assert "scoring" in capsys.readouterr().err
    go.score_dataset(nn.Linear(4, 3), PAIRS, go.Loss())
    assert capsys.readouterr().err == ""
    real_import = builtins.__import__

    def without_tqdm(name, *args, **kwargs):
        if name.startswith("tqdm"):
            raise ModuleNotFoundError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_tqdm)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "gradorder\[progress\]"'):
        go.score_dataset(nn.Linear(4, 3), PAIRS, lambda *_: pytest.fail("scored first"), progress=True)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(PAIRS)


@pytest.mark.parametrize(
    ("dataset", "settings", "message"),
    [
        (Stream(), {}, "dataset must be map-style .*got Stream"),
        ([], {}, "dataset.*empty list"),
        (PAIRS, {"batch_size": 0}, "batch_size.*0"),
        (PAIRS, {"num_workers": -1}, "num_workers.*-1"),
    ],
)
def test_bad_arguments_are_refused(dataset, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        go.score_dataset(nn.Linear(4, 3), dataset, go.Loss(), **settings)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda model, batch: model(batch[0]).mean(), r"score.*reduction=\"none\""),
        (lambda model, batch: model(batch[0]), r"score.*\(23, 3\)"),
        (lambda model, batch: 1.0, r"score.*1.0"),
    ],
)
def test_a_score_that_is_not_one_number_per_example_is_refused(score, message):
    with pytest.raises((TypeError, ValueError), match=message):
        go.score_dataset(nn.Linear(4, 3), PAIRS, score)


def test_a_collate_function_that_loses_examples_is_noticed():
    def lossy(examples):
        return torch.utils.data.default_collate(examples[:-1])

    with pytest.raises(ValueError, match=r"dataset.*21 of 23"):
        go.score_dataset(nn.Linear(4, 3), PAIRS, go.Loss(), batch_size=12, collate_fn=lossy)
