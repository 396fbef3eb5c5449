"""CIFAR-10 and CIFAR-100: residual networks, random first, ordered from a late or an early epoch on. C9 to C11, C13."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from gradorder_lab.figures import Figure, Table
from gradorder_lab.judge.claims import Cell, Claim, ClaimKind
from gradorder_lab.judge.effects import Effect, accuracy_effect, effect, paired
from gradorder_lab.paper.experiment import NEURAL_X_LABELS, Experiment, largest_size, panel
from gradorder_lab.paper.network import (
    LATE,
    MINI_RANDOM,
    RANDOM,
    TITLES,
    NeuralRecipe,
    Variant,
    network_settings,
    num_images,
    start_epoch_at,
)
from gradorder_lab.runs.recipe import Recipe, Size
from gradorder_lab.runs.summary import Summary

NET_OF = {"cifar10": "resnet20", "cifar100": "resnet18"}
LATE_START_CLAIMS = {"cifar10": "C9", "cifar100": "C10"}
EARLY = {"cifar10": 0.4, "cifar100": 0.5}
PAPER = {
    "cifar10": {
        "full random": (0.019, 99.72, 0.247, 92.56),
        "full ordered": (0.014, 99.81, 0.261, 92.09),
        "mini random": (0.017, 99.70, 0.253, 92.72),
        "mini ordered": (0.010, 99.94, 0.243, 92.31),
    },
    "cifar100": {
        "full random": (0.017, 99.93, 0.90, 78.86),
        "full ordered": (0.013, 99.98, 0.89, 78.80),
        "mini random": (0.017, 99.94, 0.91, 78.71),
        "mini ordered": (0.010, 99.99, 0.92, 78.46),
    },
}
"""Train loss, train accuracy, test loss, test accuracy, as printed."""

TRAINED = 98.0
"""The train accuracy of full random from which on the claims can be tested at all."""

_NEEDED = f"more than {TRAINED:.0f}% is needed"

SAVED = 0.1
"""The share of the example gradients that an early start is to save: 10^6 of the paper's 10^7."""

FULL_ORDERED: Variant = ("full ordered", "first")
MINI_FIRST: Variant = ("mini ordered", "first")
MINI_WITHIN: Variant = ("mini ordered", "within")
MINIS = (MINI_RANDOM, MINI_FIRST, MINI_WITHIN)


def _full_random(data: str) -> NeuralRecipe:
    """As the paper runs it."""
    return NeuralRecipe(
        experiment=data,
        data=data,
        size="paper",
        model=NET_OF[data],
        score="logit error",
        epochs=200,
        schedule="cosine",
        step_size=0.1,
        momentum=0.9,
        weight_decay=5e-4,
        augment=True,
    )


def _on_two_cores(recipe: NeuralRecipe) -> NeuralRecipe:
    small = replace(recipe, size="cpu", num_train=5000, width=8, augment=False)
    return replace(small, epochs=30, batch_size=64, evaluate_every=3)


FULL_RANDOM_OF: dict[tuple[str, Size], NeuralRecipe] = {
    **{(data, "cpu"): _on_two_cores(_full_random(data)) for data in NET_OF},
    **{(data, "paper"): _full_random(data) for data in NET_OF},
}
"""What a size runs. The smallest size needs no files, and no part of the CIFARs is shipped."""


def cifar_recipe(data: str, size: Size, method: Variant, start: float) -> NeuralRecipe:
    """One method; `start` is the part of the run that is random."""
    random = FULL_RANDOM_OF[data, size]
    start_epoch = 0 if method == RANDOM else start_epoch_at(start, random.epochs)
    return replace(random, method=method[0], sort=method[1], start_epoch=start_epoch)


def cifar_recipes(data: str, size: Size) -> list[Recipe]:
    """Everything to run; nothing where the data set is not there at this size."""
    if (data, size) not in FULL_RANDOM_OF:
        return []
    found = [FULL_RANDOM_OF[data, size], cifar_recipe(data, size, FULL_ORDERED, LATE)]
    found += [cifar_recipe(data, size, method, start) for start in (LATE, 0.5, 0.4) for method in MINIS]
    return list(dict.fromkeys(found))  # in a short run two starts may fall on the same epoch


def cifar_figures(data: str, summary: Summary) -> list[Figure]:
    """Train loss and test accuracy, sort first and sort within, late and early start, in full and zoomed."""
    size = _size(data, summary)
    if size is None:
        return []
    return [
        _cifar_figure(data, size, summary, sort, start, zoomed=zoomed)
        for sort in (MINI_FIRST, MINI_WITHIN)
        for start in (LATE, EARLY[data])
        for zoomed in (False, True)
    ]


def cifar_figure_name(data: str, sort: str, start: float, *, zoomed: bool) -> str:
    """For links and files."""
    return f"{data}-{sort}-from-{round(100 * start)}{'-zoomed' if zoomed else ''}"


def _cifar_figure(data: str, size: Size, summary: Summary, ours: Variant, start: float, *, zoomed: bool) -> Figure:
    methods = [RANDOM, *([FULL_ORDERED] if start == LATE and ours == MINI_FIRST else []), MINI_RANDOM, ours]
    recipes_of: dict[str, Recipe] = {method[0]: cifar_recipe(data, size, method, start) for method in methods}
    epochs = FULL_RANDOM_OF[data, size].epochs
    first = start_epoch_at({LATE: 0.6}.get(start, 0.35), epochs) if zoomed else 0
    panels = tuple(
        panel(
            column.replace("_", " "),
            summary,
            recipes_of,
            column,
            x_labels=NEURAL_X_LABELS,
            from_epoch=first,
            name=column,
        )
        for column in ("train_loss", "test_accuracy")
    )
    return Figure(
        name=cifar_figure_name(data, ours[1], start, zoomed=zoomed),
        title=f"{TITLES[data]}: sort {ours[1]}, from epoch {start_epoch_at(start, epochs)} of {epochs}"
        + (f", shown from epoch {first}" if zoomed else ""),
        caption=f"{NET_OF[data]}, size {size}. Before the start epoch all methods are the same random run.",
        panels=panels,
        num_columns=2,
        experiment=data,
        y_label="",
        x_labels=NEURAL_X_LABELS,
        is_log=False,
    )


def late_start(data: str, summary: Summary) -> Claim:
    """C9 or C10."""
    return Claim(
        LATE_START_CLAIMS[data],
        f"{TITLES[data]}, ordering from 0.7 of the run on: mini ordered reaches the lowest training loss, with a test "
        "accuracy within half a point.",
        tuple(_late_start(data, summary)),
        note=_note(data, summary),
        brief=f"{TITLES[data]}, late start: lowest training loss",
        is_reduced=_is_reduced(data, summary),
    )


def _late_start(data: str, summary: Summary) -> Iterator[Cell]:
    size = _size(data, summary) or "paper"
    random = FULL_RANDOM_OF[data, size]
    for ours in (MINI_FIRST, MINI_WITHIN):
        mini = cifar_recipe(data, size, ours, LATE)
        for other in (RANDOM, FULL_ORDERED, MINI_RANDOM):
            theirs = cifar_recipe(data, size, other, LATE)
            found = effect(summary, mini, theirs, random=random, column="train_loss")
            part = (f"sort {ours[1]}", "train loss")
            yield _cifar_cell(data, summary, part, f"mini ordered - {other[0]}", "lower", found)
        found = accuracy_effect(summary, mini, random, "test_accuracy")
        yield _cifar_cell(
            data, summary, (f"sort {ours[1]}", "test error"), "mini ordered - full random", "equal", found
        )


def early_start(summary: Summary) -> Claim:
    """C11."""
    return Claim(
        "C11",
        "An early start gives about the same accuracy for at least 10% fewer example gradients.",
        tuple(one for data in NET_OF for one in _early_start(data, summary)),
        brief="Early start: as accurate, 10% cheaper",
        note="A cell compares accuracies. The saving follows from the start epoch: it is counted in example gradients "
        "of training alone, as the paper does, and a run that saves less cannot say anything.",
        is_reduced=any(_is_reduced(data, summary) for data in NET_OF),
    )


def _early_start(data: str, summary: Summary) -> Iterator[Cell]:
    size = _size(data, summary) or "paper"
    random = FULL_RANDOM_OF[data, size]
    for ours in (MINI_FIRST, MINI_WITHIN):
        mini, part = cifar_recipe(data, size, ours, EARLY[data]), (TITLES[data], f"sort {ours[1]}", "test error")
        found = accuracy_effect(summary, mini, random, "test_accuracy")
        cell = _cifar_cell(data, summary, part, "mini ordered early - full random", "equal", found)
        runs = paired(summary, (mini, random))
        saved = SAVED if runs is None else float(1 - (runs[0]["trained"] / runs[1]["trained"]).max())
        yield cell if saved >= SAVED else replace(cell, untested=f"it saves {saved:.1%}; {SAVED:.0%} is needed")


def best_start(summary: Summary) -> Claim:
    """C13."""
    return Claim(
        "C13",
        "The best start epoch for the mini algorithms is 0.7 of the run, against 0.4 and 0.5.",
        tuple(one for data in NET_OF for one in _best_start(data, summary)),
        brief="The best start is 0.7 of the run",
        is_reduced=any(_is_reduced(data, summary) for data in NET_OF),
    )


def _best_start(data: str, summary: Summary) -> Iterator[Cell]:
    size = _size(data, summary) or "paper"
    for method in (MINI_FIRST, MINI_RANDOM, MINI_WITHIN):
        late = cifar_recipe(data, size, method, LATE)
        name = method[0] if method == MINI_RANDOM else f"{method[0]}, sort {method[1]}"
        for start in (0.4, 0.5):
            found = accuracy_effect(summary, late, cifar_recipe(data, size, method, start), "test_accuracy")
            part = (TITLES[data], name, "test error")
            yield _cifar_cell(data, summary, part, f"from {LATE} - from {start}", "lower", found)


def cifar_tables(data: str, summary: Summary) -> list[Table]:
    """The paper's table beside ours."""
    size = _size(data, summary)
    if size is None:
        return []
    rows = []
    for method in (RANDOM, FULL_ORDERED, MINI_RANDOM, MINI_FIRST):
        runs = summary.get(cifar_recipe(data, size, method, LATE))
        columns = {"train_loss": ".3f", "train_accuracy": ".2f", "test_loss": ".3f", "test_accuracy": ".2f"}
        found = [format(runs.last[name].mean(), form) for name, form in columns.items()] if runs else ["-"] * 4
        paper = [format(number, form) for number, form in zip(PAPER[data][method[0]], columns.values(), strict=True)]
        rows.append((method[0], *found, *paper))
    random = FULL_RANDOM_OF[data, size]
    num_train = random.num_train or num_images(data, size)[0]
    names = ("train loss", "train accuracy", "test loss", "test accuracy")
    return [
        Table(
            name=f"{data}-table",
            title=f"{TITLES[data]}: ours at size {size}, and the paper's",
            caption=f"{NET_OF[data]}, {num_train:,} training images, {random.epochs} epochs, "
            f"ordered from epoch {start_epoch_at(LATE, random.epochs)}, sort first; means over seeds. The paper: "
            "50,000 images, 200 epochs, from epoch 140.",
            header=("method", *names, *(f"{name}, paper" for name in names)),
            rows=tuple(rows),
            experiment=data,
        ),
        network_settings(
            random,
            TITLES[data],
            f"late: from 0.7 of the run; early: from {EARLY[data]}; as further starts 0.4 and 0.5",
        ),
    ]


def _size(data: str, summary: Summary) -> Size | None:
    size = largest_size(summary, lambda one: cifar_recipes(data, one))
    return size if (data, size) in FULL_RANDOM_OF else None


def _is_reduced(data: str, summary: Summary) -> bool:
    """Whether what has been run is smaller than the paper's."""
    return _size(data, summary) not in {None, "paper"}


def _cifar_cell(  # noqa: PLR0917
    data: str, summary: Summary, part: tuple[str, ...], compared: str, kind: ClaimKind, found: Effect | None
) -> Cell:
    reached = _reached(data, summary)
    is_trained = reached is None or reached > TRAINED
    untested = "" if is_trained else f"full random ends at {reached:.1f}% train accuracy, {_NEEDED}"
    return Cell(part=part, compared=compared, reading=(), kind=kind, effect=found, untested=untested)


def _reached(data: str, summary: Summary) -> float | None:
    """The train accuracy that full random ends with."""
    size = _size(data, summary)
    runs = None if size is None else summary.get(FULL_RANDOM_OF[data, size])
    return None if runs is None else float(runs.last["train_accuracy"].mean())


def _note(data: str, summary: Summary) -> str:
    size, reached = _size(data, summary), _reached(data, summary)
    if size is None or reached is None:
        return ""
    part = FULL_RANDOM_OF[data, size].num_train
    subset = "" if part is None else f" {part:,} training images, a class-balanced part of those that the files hold."
    own_copy = (
        " The copy of CIFAR-100 that these rows were made from holds {:,} of its 50,000 training images and {:,} of "
        "its 10,000 test images: without that copy they cannot be made again to the digit.".format(
            *num_images("cifar100", "cpu")
        )
    )
    return (
        f"Size {size}: full random reaches {reached:.1f}% train accuracy, {_NEEDED}.{subset}"
        f"{own_copy if (data, size) == ('cifar100', 'cpu') else ''} How it is run: the table of its settings."
    )


ENTRIES = tuple(
    Experiment(
        data,
        f"{TITLES[data]}: a residual network, ordered late and early",
        recipes=partial(cifar_recipes, data),
        claims={LATE_START_CLAIMS[data]: partial(late_start, data), "C11": early_start, "C13": best_start},
        figures=partial(cifar_figures, data),
        tables=partial(cifar_tables, data),
        seeds={"mini": 1, "cpu": 6, "paper": 5},
    )
    for data in NET_OF
)
