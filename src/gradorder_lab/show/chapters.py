"""The paper's figures and tables, in its order and under its names, each with its counterpart of ours.

The paper's figures are counted through its text and its appendix. Where we read it in more than one way, the further
readings stand right after the counterpart.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gradorder_lab.figures import Figure, Panel, Table
from gradorder_lab.paper import EXPERIMENTS, cifar, grey_images, in_number, selection
from gradorder_lab.paper.network import LATE, TITLES, start_epoch_at
from gradorder_lab.runs.recipe import Size

Drawn = Figure | Table

COMMANDED: Size = "cpu"
"""The size of the commands on the page."""


@dataclass(frozen=True)
class Excerpt:
    """A panel of another figure, by the names of both, and what to call it here."""

    figure: str
    panel: str
    title: str


@dataclass(frozen=True)
class Item:
    """A figure or table of the paper.

    Args:
        number: as "Figure 1".
        caption: the paper's.
        names: of ours; the counterpart first, then the further readings.
        experiments: what fills it.
        parts: of a counterpart that is put together from panels of other figures; `names` then has the name to give.
        note: on one that is put together: what to look at.
    """

    number: str
    caption: str
    names: tuple[str, ...]
    experiments: tuple[str, ...]
    parts: tuple[Excerpt, ...] = ()
    note: str = ""

    @property
    def title(self) -> str:
        """As "Figure 1. Synthetic data"."""
        return f"{self.number}. {self.caption}"


@dataclass(frozen=True, eq=False)
class Block:
    """What stands on the page for a figure or table.

    Args:
        name: for links and files.
        title: of it.
        drawn: None where there is nothing to draw it from.
        experiments: what fills it.
        is_folded: whether it is shown only when it is asked for: all but the counterparts of the paper's text.
    """

    name: str
    title: str
    drawn: Drawn | None
    experiments: tuple[str, ...]
    is_folded: bool = False

    @property
    def figure(self) -> Figure | None:
        """None for a table, and where there is nothing to draw."""
        return self.drawn if isinstance(self.drawn, Figure) else None

    @property
    def table(self) -> Table | None:
        """None likewise."""
        return self.drawn if isinstance(self.drawn, Table) else None

    @property
    def claims(self) -> list[str]:
        """What it is evidence for."""
        return in_number({claim for name in self.experiments for claim in EXPERIMENTS[name].claims})

    @property
    def missing(self) -> list[Panel]:
        """The panels that lack curves."""
        return [panel for panel in self.figure.panels if panel.missing] if self.figure else []

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it has been run."""
        return self.table is None and not (self.figure and any(panel.curves for panel in self.figure.panels))


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the paper with its figures and tables."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def command_for(names: Iterable[str]) -> str:
    """What runs these experiments."""
    return f"gradorder reproduce {' '.join(names)} --size {COMMANDED}"


def in_order(drawn: Sequence[Drawn]) -> tuple[Section, ...]:
    """Text, appendix, and what the paper does not have: each of ours exactly once."""
    ours = {one.name: one for one in drawn}
    known = {name for item in (*TEXT, *APPENDIX) for name in item.names}
    others = tuple(
        Block(one.name, one.title, one, (one.experiment,), is_folded=True) for one in drawn if one.name not in known
    )
    return (
        Section("text", "In the paper's text", _all_shown(TEXT, ours)),
        Section("appendix", "In its appendix", _all_shown(APPENDIX, ours)),
        Section("beyond", "Beyond the paper", others),
    )


def _all_shown(items: Sequence[Item], ours: Mapping[str, Drawn]) -> tuple[Block, ...]:
    return tuple(one for item in items for one in _shown(item, ours))


def _shown(item: Item, ours: Mapping[str, Drawn]) -> list[Block]:
    counterpart, *further = item.names
    found = _put_together(item, ours) if item.parts else _renamed(item, ours.get(counterpart))
    first = Block(counterpart, item.title, found, item.experiments, is_folded=item not in TEXT)
    return [first, *(_further(item, ours[name]) for name in further if name in ours)]


def _further(item: Item, drawn: Drawn) -> Block:
    title = f"{item.number}, further reading. {drawn.title}"
    return Block(drawn.name, title, replace(drawn, title=title), item.experiments, is_folded=True)


def _renamed(item: Item, drawn: Drawn | None) -> Drawn | None:
    return None if drawn is None else replace(drawn, title=item.title, caption=f"{drawn.title}. {drawn.caption}")


def _put_together(item: Item, ours: Mapping[str, Drawn]) -> Figure | None:
    found = [ours.get(part.figure) for part in item.parts]
    sources = [one for one in found if isinstance(one, Figure)]
    if not sources:
        return None
    panels = tuple(_excerpt(part, one) for part, one in zip(item.parts, found, strict=True))
    like = sources[0]
    return replace(
        like,
        name=item.names[0],
        title=item.title,
        caption=item.note,
        panels=panels,
        num_columns=_NUM_COLUMNS[len(panels)],
        y_label=like.y_label if all(one.y_label == like.y_label for one in sources) else "",
    )


def _excerpt(part: Excerpt, drawn: Drawn | None) -> Panel:
    panels = drawn.panels if isinstance(drawn, Figure) else ()
    found = next((panel for panel in panels if panel.name == part.panel), None)
    return Panel(part.title, (), ("all methods",)) if found is None else replace(found, title=part.title)


_NUM_COLUMNS = {2: 2, 3: 3, 4: 2}
_PROBLEMS = {
    "Synthesis": ("synthetic",),
    "Iris": ("iris-literal", "iris-scaled"),
    "Boston Housing": ("boston-literal", "boston-scaled"),
}


def _simple(number: int | str, caption: str, *names: str, experiment: str) -> Item:
    return Item(f"Figure {number}", caption, names, (experiment,))


def _selection_in_text() -> Item:
    parts = [
        Excerpt(f"selection-{problems[0]}-decreasing", selection.panel_name((0.8, 0.5)), title)
        for title, problems in _PROBLEMS.items()
    ]
    return Item(
        "Figure 4",
        "Data Selection S = 0.8, q = 0.5",
        ("selection-shown",),
        ("selection",),
        tuple(parts),
        "Step decreasing per iteration; 15 random epochs, then 10 of the method. All cells: from Figure 10 on.",
    )


def _grey_in_text(number: int, data: str, caption: str, *, full: int) -> Item:
    splits = {"train": "Training Accuracy", "test": "Test Accuracy"}
    parts = [
        Excerpt(grey_images.grey_figure_name(data, "within", 0.0, split), grey_images.panel_name("2-layer", 128), title)
        for split, title in splits.items()
    ]
    note = f"Sort within, q = 0.5 S. Both nets and batch sizes: from Figure {full} on."
    return Item(f"Figure {number}", caption, (f"{data}-2-layer-128",), (data,), tuple(parts), note)


def _cifar_late() -> Item:
    columns = {"train_loss": "Training Loss", "test_accuracy": "Test Acc"}
    parts = [
        Excerpt(cifar.cifar_figure_name(data, "first", LATE, zoomed=False), column, f"{TITLES[data]} {shown}")
        for column, shown in columns.items()
        for data in cifar.NET_OF
    ]
    note = "Sort first, from 0.7 of the run on: epoch 140 of the paper's 200. In full and zoomed: from Figure 24 on."
    return Item("Figure 7", "Ordering Starting at Epoch 140", ("cifar-late",), tuple(cifar.NET_OF), tuple(parts), note)


def _early_epoch(data: str) -> int:
    """The paper's, of 200."""
    return start_epoch_at(cifar.EARLY[data], 200)


def _cifar_early() -> Item:
    parts = [
        Excerpt(
            cifar.cifar_figure_name(data, "first", cifar.EARLY[data], zoomed=False),
            "test_accuracy",
            f"{TITLES[data]} Test Acc, Start Epoch {_early_epoch(data)} of 200",
        )
        for data in cifar.NET_OF
    ]
    note = "Sort first, from 0.4 and 0.5 of the run on: epochs 80 and 100 of the paper's 200."
    names, data_sets = ("cifar-early",), tuple(cifar.NET_OF)
    return Item("Figure 8", "Ordering Starting at Earlier Epochs", names, data_sets, tuple(parts), note)


def _grids() -> list[Item]:
    """Figures 10 to 15, in the paper's own sequence."""
    sequence = (
        ("Synthesis", "decreasing"),
        ("Synthesis", "constant"),
        ("Boston Housing", "constant"),
        ("Boston Housing", "decreasing"),
        ("Iris", "decreasing"),
        ("Iris", "constant"),
    )
    return [
        _simple(
            10 + place,
            f"{title}, {kind} step size",
            *(f"selection-{problem}-{kind}" for problem in _PROBLEMS[title]),
            experiment="selection",
        )
        for place, (title, kind) in enumerate(sequence)
    ]


def _grey_grids(first: int, data: str, title: str) -> list[Item]:
    sequence = [(sort, split) for sort in ("within", "first") for split in ("train", "test")]
    return [
        _simple(
            first + place,
            f"{split.capitalize()} Accuracy for {title}, sort {sort}",
            *(
                grey_images.grey_figure_name(data, reading, start, split)
                for reading, start in grey_images.readings_of(COMMANDED)
                if reading.startswith(sort)
            ),
            experiment=data,
        )
        for place, (sort, split) in enumerate(sequence)
    ]


def _cifar_curves() -> list[Item]:
    """Figures 24 to 39."""
    nets = {"cifar10": "CIFAR-10 RESNET20", "cifar100": "CIFAR-100 RESNET18"}
    sequence = [
        (sort, is_late, data, zoomed)
        for sort in ("first", "within")
        for is_late in (True, False)
        for data in nets
        for zoomed in (False, True)
    ]
    return [
        _simple(
            24 + place,
            nets[data] + _cifar_caption(None if is_late else _early_epoch(data), zoomed=zoomed) + f", sort {sort}",
            cifar.cifar_figure_name(data, sort, LATE if is_late else cifar.EARLY[data], zoomed=zoomed),
            experiment=data,
        )
        for place, (sort, is_late, data, zoomed) in enumerate(sequence)
    ]


def _cifar_caption(early: int | None, *, zoomed: bool) -> str:
    if early is None:
        return " From Epoch 120" if zoomed else " Full Plot"
    return f": Start Ordering at Epoch {early}, {'From Epoch 70' if zoomed else 'Full'}"


TEXT: tuple[Item, ...] = (
    _simple(1, "Synthetic Data", "synthetic", experiment="synthetic"),
    _simple(2, "Iris Data set", "iris-literal", "iris-scaled", experiment="iris"),
    _simple(3, "Boston Data set", "boston-literal", "boston-scaled", experiment="boston"),
    _selection_in_text(),
    _grey_in_text(5, "mnist", "MNIST 2-layer Batch = 128", full=16),
    _grey_in_text(6, "fashion-mnist", "Fashion MNIST 2-layer Batch = 128", full=20),
    _cifar_late(),
    *(
        Item("Table", f"{TITLES[data]} beside the paper's numbers", (f"{data}-table",), (data,))
        for data in cifar.NET_OF
    ),
    _cifar_early(),
)

APPENDIX: tuple[Item, ...] = (
    _simple("9a", "Synthetic Data (continued), far from optimal", "synthetic-far", experiment="synthetic-far"),
    _simple("9b", "Synthetic Data (continued), closer to optimal", "synthetic-switch", experiment="synthetic-switch"),
    *_grids(),
    *_grey_grids(16, "mnist", "MNIST"),
    *_grey_grids(20, "fashion-mnist", "Fashion MNIST"),
    *_cifar_curves(),
)
