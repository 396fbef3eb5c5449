"""MNIST and Fashion-MNIST: two nets, two batch sizes, every method. Claims C7 and C8."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from gradorder_lab.figures import Figure, Table
from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import accuracy_effect
from gradorder_lab.paper import tuned_steps
from gradorder_lab.paper.experiment import NEURAL_X_LABELS, Experiment, largest_size, panel
from gradorder_lab.paper.network import (
    BALANCED_RANDOM,
    LATE,
    MINI_RANDOM,
    RANDOM,
    TITLES,
    NeuralRecipe,
    Variant,
    network_settings,
    start_epoch_at,
)
from gradorder_lab.runs.recipe import Recipe, Size
from gradorder_lab.runs.summary import Summary

MOST_ACCURATE_CLAIMS = {"mnist": "C7", "fashion-mnist": "C8"}

VARIANTS_BY_SORT: dict[str, tuple[Variant, ...]] = {
    "within": (RANDOM, MINI_RANDOM, ("mini ordered", "within")),
    "first": (RANDOM, ("full ordered", "first"), MINI_RANDOM, ("mini ordered", "first")),
    "first dealt": (RANDOM, ("full ordered", "first dealt"), MINI_RANDOM, ("mini ordered", "first dealt")),
}
"""How the data is sorted -> what is compared. Sorting within a batch that is kept whole changes nothing but the order
in which the gradients are added up: there is no full ordered run then."""

GREY_NETS: dict[Size, tuple[str, ...]] = {
    "mini": ("2-layer",),
    "cpu": ("2-layer", "7-layer"),
    "paper": ("2-layer", "7-layer"),
}
GREY_EPOCHS: dict[Size, int] = {"mini": 6, "cpu": 10, "paper": 10}
GREY_BATCH_SIZES = (128, 256)

LAYOUTS = {
    ("within", 0.0): tuned_steps.LAYOUT_OF["within"],
    ("first", 0.0): tuned_steps.LAYOUT_OF["first"],
    ("first dealt", 0.0): "sort first dealt, from epoch 0",
    ("first", LATE): f"sort first contiguous, from {LATE} of the run on",
}
"""How the data is sorted, and the part of the run that is random -> the reading."""


def readings_of(size: Size) -> list[tuple[str, float]]:
    """Those that a size runs: the smallest one has the literal readings only."""
    return [reading for reading in LAYOUTS if size != "mini" or reading in {("within", 0.0), ("first", 0.0)}]


def grey_recipe(  # noqa: PLR0917 - in the order of the paper's grids
    data: str, size: Size, net: str, batch_size: int, method: Variant, start: float = 0.0
) -> NeuralRecipe:
    """One method; `start` is the part of the run that is random."""
    epochs = GREY_EPOCHS[size]
    kind, sort = method
    return NeuralRecipe(
        experiment=data,
        data=data,
        size=size,
        model=net,
        method=kind,
        sort=sort,
        batch_size=batch_size,
        epochs=epochs,
        start_epoch=0 if method == RANDOM else start_epoch_at(start, epochs),
    )


def grey_recipes(data: str, size: Size) -> list[Recipe]:
    """Everything to run."""
    found: dict[NeuralRecipe, None] = {}
    for net in GREY_NETS[size]:
        for batch_size in GREY_BATCH_SIZES:
            for sort, start in readings_of(size):
                for variant in VARIANTS_BY_SORT[sort]:
                    found[grey_recipe(data, size, net, batch_size, variant, start)] = None
            if size != "mini":
                found[grey_recipe(data, size, net, batch_size, BALANCED_RANDOM)] = None
    return list(found)


def grey_figures(data: str, summary: Summary) -> list[Figure]:
    """The paper's grids: train and test accuracy, sort within and sort first; then dealt and the late start."""
    size = largest_size(summary, lambda one: grey_recipes(data, one))
    return [
        _grey_grid(data, size, summary, sort=sort, start=start, split=split)
        for sort, start in readings_of(size)
        for split in ("train", "test")
    ]


def grey_figure_name(data: str, sort: str, start: float, split: str) -> str:
    """For links and files."""
    return f"{data}-{sort.replace(' ', '-')}{'-late' if start else ''}-{split}"


def panel_name(net: str, batch_size: int) -> str:
    """Of the panel of this net and batch size."""
    return f"{net}-{batch_size}"


def _grey_grid(data: str, size: Size, summary: Summary, *, sort: str, start: float, split: str) -> Figure:
    panels = tuple(
        panel(
            f"{net} net, batch {batch_size}",
            summary,
            {method[0]: grey_recipe(data, size, net, batch_size, method, start) for method in VARIANTS_BY_SORT[sort]},
            f"{split}_accuracy",
            x_labels=NEURAL_X_LABELS,
            name=panel_name(net, batch_size),
        )
        for net in GREY_NETS[size]
        for batch_size in GREY_BATCH_SIZES
    )
    late = f", ordered from {LATE:.0%} of the run on" if start else ""
    return Figure(
        name=grey_figure_name(data, sort, start, split),
        title=f"{TITLES[data]}: {split} accuracy, sort {sort}{late}",
        caption=f"Rows: the net; columns: the batch size. q = 0.5 S for the mini methods. Size {size}.",
        panels=panels,
        num_columns=len(GREY_BATCH_SIZES),
        experiment=data,
        y_label=f"{split} accuracy (%)",
        x_labels=NEURAL_X_LABELS,
        is_log=False,
    )


def most_accurate(data: str, summary: Summary) -> Claim:
    """C7 or C8."""
    size = largest_size(summary, lambda one: grey_recipes(data, one))
    return Claim(
        MOST_ACCURATE_CLAIMS[data],
        f"{TITLES[data]}: mini ordered is best in train and test accuracy, for both nets and both batch sizes, sort "
        "within and sort first.",
        tuple(_most_accurate(data, size, summary)),
        brief=f"{TITLES[data]}: mini ordered most accurate",
        note=f"Size {size}: {' and '.join(GREY_NETS[size])} net. The effect is the error of mini ordered "
        "minus that of the other, in points. Contiguous sort first from epoch 0 is the literal reading; dealt and a "
        "late start are the others. One learning rate for all methods means "
        f"{tuned_steps.UNTUNED}, which was tuned for none of them. {tuned_steps.step_size_answer(data, summary)}",
        is_reduced=size == "mini",
    )


def _most_accurate(data: str, size: Size, summary: Summary) -> Iterator[Cell]:
    for net in GREY_NETS[size]:
        for batch_size in GREY_BATCH_SIZES:
            recipe = partial(grey_recipe, data, size, net, batch_size)
            where = (f"{net} net", f"batch {batch_size}")
            for sort, start in readings_of(size):
                *others, ours = (recipe(variant, start) for variant in VARIANTS_BY_SORT[sort])
                for theirs in others:
                    yield from _grey_cells(summary, where, sort, start, ours, theirs)
            if size != "mini":  # sort first has class-balanced batches: is it the balance or the order?
                ours, theirs = recipe(("mini ordered", "first")), recipe(BALANCED_RANDOM)
                yield from _grey_cells(summary, where, "first", 0.0, ours, theirs)
    if size != "mini":
        yield from tuned_steps.cells(data, summary)


def _grey_cells(  # noqa: PLR0917
    summary: Summary, where: tuple[str, str], sort: str, start: float, ours: NeuralRecipe, theirs: NeuralRecipe
) -> Iterator[Cell]:
    balanced = " with class-balanced batches" if theirs.sort == "balanced" else ""
    is_answer = (ours.model, ours.batch_size) == (tuned_steps.NET, tuned_steps.BATCH_SIZE) and sort == "within"
    for split in ("train", "test"):
        yield Cell(
            part=(*where, f"sort {sort.partition(' ')[0]}", f"{split} error"),
            compared=f"mini ordered - {theirs.method}{balanced}",
            reading=(LAYOUTS[sort, start], tuned_steps.ONE_STEP),
            kind="lower",
            effect=accuracy_effect(summary, ours, theirs, f"{split}_accuracy"),
            name=tuned_steps.cell_name(split, theirs, tuned_steps.ONE_STEP) if is_answer else "",
        )


def grey_tables(data: str, summary: Summary) -> list[Table]:
    """How it is run."""
    size = largest_size(summary, lambda one: grey_recipes(data, one))
    random = grey_recipe(data, size, GREY_NETS[size][0], GREY_BATCH_SIZES[0], RANDOM)
    return [
        network_settings(
            replace(random, batch_size=" and ".join(map(str, GREY_BATCH_SIZES))),  # type: ignore[arg-type]
            TITLES[data],
            f"at once, and as a further reading of sort first from {LATE:.0%} of the run on",
            GREY_NETS[size],
        )
    ]


ENTRIES = (
    *(
        Experiment(
            data,
            f"{TITLES[data]}: two nets, two batch sizes, every method",
            recipes=partial(grey_recipes, data),
            claims={MOST_ACCURATE_CLAIMS[data]: partial(most_accurate, data)},
            figures=partial(grey_figures, data),
            tables=partial(grey_tables, data),
            seeds={"mini": 5, "cpu": 5, "paper": 5},
        )
        for data in MOST_ACCURATE_CLAIMS
    ),
    *(
        tuned_steps.experiment(data, {MOST_ACCURATE_CLAIMS[data]: partial(most_accurate, data)})
        for data in MOST_ACCURATE_CLAIMS
    ),
)
