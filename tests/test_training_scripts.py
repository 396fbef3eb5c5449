"""Every block of docs/howto/training_scripts.md does what the page says, not only runs."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import gradorder as go

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "training_scripts.md"


@pytest.fixture(scope="module")
def after():
    """The variables after the blocks of each section, by its heading."""
    namespace, found = {"__name__": "script"}, {}
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("error")
        for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE):
            for block in re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL):
                exec(compile(block, str(PAGE), "exec"), namespace)  # noqa: S102 - our own page
            found[section.splitlines()[0]] = dict(namespace)
    return found


def block_of(section):
    """The first block of a section."""
    return re.search(rf"^## {section}$.*?^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]


def remembered(sampler):
    return sampler.state_dict()["remembered_scores"]


CLASSIFIERS = [
    "AdamW with warm-up and cosine",
    "OneCycle",
    "Gradient clipping",
    "Gradient accumulation",
    "Mixed precision",
    "EMA of the weights",
    "torch.compile",
    "An existing WeightedRandomSampler",
]


@pytest.mark.parametrize("section", CLASSIFIERS)
def test_every_script_learns_and_skips_what_it_has_learned(after, section):
    names = after[section]
    inputs, targets = names["dataset"].tensors
    assert (names["model"](inputs).argmax(1) == targets).double().mean() > 0.9
    assert names["sampler"].progress == 1
    assert len(names["sampler"]) < 300  # of 400


def test_the_warm_up_rises_for_a_tenth_of_the_run_and_the_cosine_ends_at_zero(after):
    names = after["AdamW with warm-up and cosine"]
    rates = names["rates"]
    assert rates[0] == 0
    assert max(rates) == pytest.approx(1e-2, rel=0.05)
    assert rates.index(max(rates)) in {5, 6, 7}  # a tenth of the run is 6 of the 10 steps of epoch 0
    assert names["scheduler"].get_last_lr() == [0.0]


def test_one_cycle_ends_at_its_final_rate_with_fewer_steps(after):
    names = after["OneCycle"]
    assert len(names["rates"]) < 60
    assert names["rates"][0] == pytest.approx(1e-2 / 25)
    assert names["scheduler"].get_last_lr() == pytest.approx([1e-2 / 25 / 1e4])


def test_accumulation_remembers_the_loss_of_each_example(after):
    """The first epoch with a model that does not change: its losses are those of one pass."""
    names = {**after["# Your training script"], "epochs": 1}
    torch.manual_seed(0)
    exec(block_of("Gradient accumulation").replace("lr=1e-2", "lr=0.0"), names)  # noqa: S102 - our own page
    inputs, targets = names["dataset"].tensors
    expected = F.cross_entropy(names["model"](inputs), targets, reduction="none")
    assert torch.allclose(remembered(names["sampler"]), expected, atol=1e-5)


def test_plain_losses_fall_below_the_floor_of_smoothed_ones(after):
    names = after["Label smoothing and class weights"]
    inputs, targets = names["dataset"].tensors
    smoothed = F.cross_entropy(names["model"](inputs), targets, reduction="none", label_smoothing=0.1)
    assert remembered(names["sampler"]).median() < smoothed.min()
    assert len(names["sampler"]) < 400


def test_smoothed_losses_skip_nothing_and_the_sampler_says_so(after):
    names = dict(after["# Your training script"])
    torch.manual_seed(0)
    smoothed = block_of("Label smoothing and class weights").replace(
        'detach(), targets, reduction="none"', 'detach(), targets, reduction="none", label_smoothing=0.1'
    )
    with pytest.warns(UserWarning, match="no loss given to step is below") as said:
        exec(smoothed, names)  # noqa: S102 - our own page
    assert len(said) == 1
    assert len(names["sampler"]) == 400


def test_augmentation_skips_less_and_the_plain_loader_gives_every_example_in_order(after):
    names = after["Random augmentation"]
    assert torch.equal(torch.cat([x for x, _ in names["plain_loader"]]), names["dataset"].tensors[0])
    assert len(after["Gradient clipping"]["sampler"]) < len(names["sampler"]) < 400


def test_the_average_has_seen_every_step(after):
    names = after["EMA of the weights"]
    assert names["average"].n_averaged == names["num_steps"] < 60
    assert not torch.equal(names["average"].module[0].weight, names["model"][0].weight)


def test_early_stopping_stops_and_returns_the_best_weights(after):
    names = after["Early stopping"]
    assert names["epoch"] == names["best_epoch"] + 3 < 49
    inputs, targets = names["validation"].tensors
    assert F.cross_entropy(names["model"](inputs), targets).item() == pytest.approx(names["best"], rel=1e-6)


@pytest.mark.parametrize("section", ["Multi-label classification", "Segmentation", "Regression"])
def test_one_number_per_example_is_remembered(after, section):
    sampler = after[section]["sampler"]
    scores = remembered(sampler)
    assert scores.shape == (sampler.num_examples,)
    assert scores.isfinite().all()
    assert scores.mean() < 0.3


def test_a_stream_is_refused_and_its_list_is_not(after):
    names = after["An IterableDataset"]
    with pytest.raises(go.IterableDatasetError):
        go.recommended(names["Stream"](), batch_size=40, epochs=2)
    assert names["sampler"].num_examples == 400
    assert len(names["targets"]) == 20
