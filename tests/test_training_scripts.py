"""Every block of docs/training_scripts.md does what the page says, not only runs."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import WeightedRandomSampler

import gradorder as go

PAGE = Path(__file__).parent.parent / "docs" / "training_scripts.md"


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


def test_the_training_accuracy_is_that_of_all_examples(after):
    names = after["AdamW with warm-up and cosine"]
    inputs, targets = names["dataset"].tensors
    assert names["accuracy"] == (names["model"](inputs).argmax(1) == targets).sum().item() / 400


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


def test_accumulated_gradients_are_those_of_the_whole_batch(after):
    names = after["Gradient accumulation"]
    model, (inputs, targets) = names["model"], names["dataset"][:40]
    model.zero_grad()
    for x, y in zip(inputs.split(16), targets.split(16), strict=True):
        (F.cross_entropy(model(x), y, reduction="none").sum() / len(inputs)).backward()
    accumulated = model[0].weight.grad.clone()
    model.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    assert torch.allclose(accumulated, model[0].weight.grad, atol=1e-6)


def test_gradients_are_clipped(after):
    norms = torch.stack([p.grad.norm() for p in after["Gradient clipping"]["model"].parameters()])
    assert norms.norm() <= 1 + 1e-5


def test_mixed_precision_computes_in_bfloat16(after):
    assert after["Mixed precision"]["logits"].dtype == torch.bfloat16


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


def test_compiled_and_eager_losses_agree(after):
    names = after["torch.compile"]
    assert torch.allclose(names["compiled"](names["inputs"]), names["model"](names["inputs"]))


def test_weights_in_the_loss_have_the_expected_gradient_of_weighted_draws(after):
    """The mean of w * loss is, up to the mean weight of 1, the mean loss under draws in proportion to w."""
    names = after["An existing WeightedRandomSampler"]
    weights, losses = names["weights"].double(), torch.arange(400.0).double()
    assert weights.mean() == pytest.approx(1)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.tensor(list(WeightedRandomSampler(weights, 200_000, generator=generator)))
    assert losses[drawn].mean() == pytest.approx((weights * losses).mean().item(), rel=0.01)


def test_a_stream_is_refused_and_its_list_is_not(after):
    names = after["An IterableDataset"]
    with pytest.raises(go.IterableDatasetError):
        go.recommended(names["Stream"](), batch_size=40, epochs=2)
    assert names["sampler"].num_examples == 400
    assert len(names["targets"]) == 20
