"""MNIST and Fashion-MNIST: two nets, two batch sizes, every method. Claims C7 and C8."""

from collections.abc import Iterator
from dataclasses import dataclass

from gradorder_lab.claims import Claim, Comparison
from gradorder_lab.comparisons import accuracy_effect
from gradorder_lab.experiment import Size, largest_size
from gradorder_lab.figures import Figure, neural_panel
from gradorder_lab.neural.recipe import Method, NeuralRecipe, Sort, start_epoch_at
from gradorder_lab.recipe import Recipe
from gradorder_lab.summary import Summary

CLAIMS = {"mnist": "C7", "fashion-mnist": "C8"}
TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}

MethodKey = tuple[Method, Sort]
RANDOM: MethodKey = ("full random", "none")
MINI_RANDOM: MethodKey = ("mini random", "none")
METHODS: dict[str, tuple[MethodKey, ...]] = {
    "within": (RANDOM, MINI_RANDOM, ("mini ordered", "within")),
    "first": (RANDOM, ("full ordered", "first"), MINI_RANDOM, ("mini ordered", "first")),
    "first dealt": (RANDOM, ("full ordered", "first dealt"), MINI_RANDOM, ("mini ordered", "first dealt")),
}
"""How the data is sorted -> what is compared. Sorting within a batch that is kept whole changes nothing but the order
in which the gradients are added up: there is no full ordered run then."""

LATE = 0.7
"""The second reading of sort first: ordering from this part of the run on."""


@dataclass(frozen=True)
class Protocol:
    """What a size runs."""

    nets: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    epochs: int


PROTOCOLS: dict[Size, Protocol] = {
    "mini": Protocol(("2-layer", "7-layer"), (128,), 3),
    "cpu": Protocol(("2-layer", "7-layer"), (128, 256), 10),
    "paper": Protocol(("2-layer", "7-layer"), (128, 256), 10),
}
NETS = ("2-layer", "7-layer")
BATCH_SIZES = (128, 256)


def recipe(  # noqa: PLR0917 - in the order of the paper's grids
    data: str, size: Size, net: str, batch_size: int, method: MethodKey, start: float = 0.0
) -> NeuralRecipe:
    """One method; `start` is the part of the run that is random."""
    epochs = PROTOCOLS[size].epochs
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


def recipes(data: str, size: Size) -> list[Recipe]:
    """Everything to run."""
    protocol = PROTOCOLS[size]
    found: dict[NeuralRecipe, None] = {}
    for net in protocol.nets:
        for batch_size in protocol.batch_sizes:
            for methods in METHODS.values():
                for method in methods:
                    found[recipe(data, size, net, batch_size, method)] = None
            for method in METHODS["first"]:
                found[recipe(data, size, net, batch_size, method, LATE)] = None
    return list(found)


def figures(data: str, summary: Summary) -> list[Figure]:
    """The paper's grids: train and test accuracy, sort within and sort first; then dealt and the late start."""
    size = largest_size(summary, lambda one: recipes(data, one))
    shown = [("within", 0.0), ("first", 0.0), ("first dealt", 0.0), ("first", LATE)]
    return [
        _grid(data, size, summary, sort=sort, start=start, split=split)
        for sort, start in shown
        for split in ("train", "test")
    ]


def figure_name(data: str, sort: str, start: float, split: str) -> str:
    """For links and files."""
    return f"{data}-{sort.replace(' ', '-')}{'-late' if start else ''}-{split}"


def _grid(data: str, size: Size, summary: Summary, *, sort: str, start: float, split: str) -> Figure:
    protocol = PROTOCOLS[size]
    panels = tuple(
        neural_panel(
            f"{net} net, batch {batch_size}",
            summary,
            {method[0]: recipe(data, size, net, batch_size, method, start) for method in METHODS[sort]},
            f"{split}_accuracy",
        )
        for net in protocol.nets
        for batch_size in protocol.batch_sizes
    )
    late = f", ordered from {LATE:.0%} of the run on" if start else ""
    return Figure(
        name=figure_name(data, sort, start, split),
        title=f"{TITLES[data]}: {split} accuracy, sort {sort}{late}",
        caption=f"Rows: the net; columns: the batch size. q = 0.5 S for the mini methods. Size {size}.",
        panels=panels,
        num_columns=len(protocol.batch_sizes),
        experiment=data,
        y_label=f"{split} accuracy (%)",
        x_labels=NEURAL_X_LABELS,
        is_log=False,
    )


NEURAL_X_LABELS = {
    "epoch": "epoch",
    "updates": "steps",
    "trained": "example gradients",
    "forward": "forward passes, scoring included",
    "seconds": "seconds, scoring included",
}


def claim(data: str, summary: Summary) -> Claim:
    """C7 or C8."""
    size = largest_size(summary, lambda one: recipes(data, one))
    return Claim(
        CLAIMS[data],
        f"{TITLES[data]}: mini ordered is best in train and test accuracy, for both nets and both batch sizes, sort "
        "within and sort first.",
        tuple(_comparisons(data, size, summary)),
        figures=tuple(
            figure_name(data, sort, start, split)
            for sort, start in (("within", 0.0), ("first", 0.0), ("first dealt", 0.0), ("first", LATE))
            for split in ("train", "test")
        ),
        note=f"Size {size}. The effect is the error of mini ordered minus that of the other, in points. Contiguous "
        "sort first from epoch 0 is the literal reading; dealt, and a late start, are further ones.",
    )


def _comparisons(data: str, size: Size, summary: Summary) -> Iterator[Comparison]:
    for net in NETS:
        for batch_size in BATCH_SIZES:
            for sort, start in (("within", 0.0), ("first", 0.0), ("first dealt", 0.0), ("first", LATE)):
                yield from _compared(data, size, summary, net, batch_size, sort, start)


def _compared(  # noqa: PLR0917 - as `recipe`
    data: str, size: Size, summary: Summary, net: str, batch_size: int, sort: str, start: float
) -> Iterator[Comparison]:
    is_primary = start == 0 and sort != "first dealt"
    *others, ours = (recipe(data, size, net, batch_size, method, start) for method in METHODS[sort])
    for theirs in others:
        for split in ("train", "test"):
            yield Comparison(
                data=f"{net} net, batch {batch_size}, sort {sort.split(maxsplit=1)[0]}",
                what=f"mini ordered - {theirs.method}, {split} error",
                reading=f"sort {sort}, from epoch {ours.start_epoch} of {ours.epochs}",
                is_primary=is_primary,
                kind="lower",
                effect=accuracy_effect(summary, ours, theirs, f"{split}_accuracy"),
            )
