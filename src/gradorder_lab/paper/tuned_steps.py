"""MNIST and Fashion-MNIST with step sizes that were searched: is an order more than a larger step? For C7 and C8.

Every method is run with every step size of one grid, on nine tenths of the training images. The tenth that is held out
chooses each method's step size; the test images have no say. Two further readings follow: full random's choice for
all methods, and each method with its own.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from gradorder_lab.figures import Table
from gradorder_lab.judge.claims import Cell, Claim, Outcome
from gradorder_lab.judge.effects import Effect, accuracy_effect, paired
from gradorder_lab.paper.experiment import Experiment
from gradorder_lab.paper.network import MINI_RANDOM, RANDOM, TITLES, NeuralRecipe, Sort, Variant
from gradorder_lab.runs.recipe import Recipe, Size
from gradorder_lab.runs.summary import Summary
from gradorder_lab.training.step_sizes import best_size

NET, BATCH_SIZE = "2-layer", 128
"""The one net and batch size that is searched: a search is forty times the work of a comparison."""

STEP_SIZES = (0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
"""For every method; a choice at an edge is marked in the table."""

ONE_STEP = "one learning rate for all"
RANDOMS_STEP = "full random's tuned learning rate for all"
OWN_STEPS = "each with its own tuned learning rate"
"""The reading that tells an order from a larger step."""

LAYOUT_OF = {"within": "sort within, from epoch 0", "first": "sort first contiguous, from epoch 0"}
"""How sorted data become batches: the reading of each sort here."""

UNTUNED = 0.1
"""The one learning rate that every method has without a search."""

HELD_OUT = 0.1
SORTS: tuple[Sort, ...] = ("within", "first")
VARIANTS: tuple[Variant, ...] = (RANDOM, MINI_RANDOM, *(("mini ordered", sort) for sort in SORTS))


def tuned_recipe(data: str, variant: Variant, step_size: float) -> NeuralRecipe:
    """One method with one step size; measured before and after, nothing in between."""
    method, sort = variant
    return NeuralRecipe(
        experiment=name_of(data),
        data=data,
        size="cpu",
        model=NET,
        method=method,
        sort=sort,
        batch_size=BATCH_SIZE,
        step_size=step_size,
        evaluate_every=NeuralRecipe.epochs,
        held_out=HELD_OUT,
    )


def name_of(data: str) -> str:
    """Of the experiment."""
    return f"{data}-steps"


def tuned_recipes(data: str, size: Size) -> list[Recipe]:
    """Every method with every step size; at both sizes that read all images the same."""
    return [] if size == "mini" else [tuned_recipe(data, one, step) for step in STEP_SIZES for one in VARIANTS]


def chosen_step_size(data: str, variant: Variant, summary: Summary) -> float | None:
    """The step size that is best on the held-out images, over the seeds that all have; None before all have some."""
    runs = paired(summary, [tuned_recipe(data, variant, step) for step in STEP_SIZES])
    if runs is None:
        return None
    return best_size({step: one["held_out_accuracy"].mean() for step, one in zip(STEP_SIZES, runs, strict=True)})


def cells(data: str, summary: Summary) -> Iterator[Cell]:
    """Mini ordered against full and mini random, with learning rates that were searched."""
    steps = {variant: chosen_step_size(data, variant, summary) for variant in VARIANTS}
    readings: dict[str, Mapping[Variant, float | None]] = {
        RANDOMS_STEP: dict.fromkeys(VARIANTS, steps[RANDOM]),
        OWN_STEPS: steps,
    }
    for sort in SORTS:
        for reading, of_variant in readings.items():
            for theirs in (RANDOM, MINI_RANDOM):
                for split in ("train", "test"):
                    yield _tuned_cell(data, summary, sort, theirs, split, of_variant, reading)


def _tuned_cell(  # noqa: PLR0917
    data: str,
    summary: Summary,
    sort: Sort,
    theirs: Variant,
    split: str,
    steps: Mapping[Variant, float | None],
    reading: str,
) -> Cell:
    ours: Variant = ("mini ordered", sort)
    our_step, their_step = steps[ours], steps[theirs]
    found = None
    if our_step is not None and their_step is not None:
        pair = (tuned_recipe(data, ours, our_step), tuned_recipe(data, theirs, their_step))
        found = accuracy_effect(summary, *pair, f"{split}_accuracy")
    return Cell(
        part=(f"{NET} net", f"batch {BATCH_SIZE}", f"sort {sort}", f"{split} error"),
        compared=f"mini ordered - {theirs[0]}",
        reading=(LAYOUT_OF[sort], reading),
        kind="lower",
        effect=found,
        name=cell_name(split, tuned_recipe(data, theirs, UNTUNED), reading) if sort == "within" else "",
    )


def cell_name(split: str, theirs: NeuralRecipe, learning_rates: str) -> str:
    """Of the cell that compares the hardest half of each batch with another method."""
    return f"hardest half, {split}, {theirs.method}, {learning_rates}"


def answering_cell(learning_rates: str) -> str:
    """The name of the cell that says what the hardest half does to full random's test error."""
    return f"hardest half, test, {RANDOM[0]}, {learning_rates}"


_SAYS = {
    Outcome.HOLDS: "the gain is not the effect of a larger step alone",
    Outcome.FAILS: "the gain is the effect of a larger step",
    Outcome.OPEN: "whether the gain is the effect of a larger step these runs cannot say",
}


def step_size_answer(data: str, summary: Summary) -> str:
    """Is the gain of sorting within the batch that of a larger step? In a sentence, from the runs."""
    ours: Variant = ("mini ordered", "within")
    own = {variant: chosen_step_size(data, variant, summary) for variant in (RANDOM, ours)}
    untuned = dict.fromkeys(own, UNTUNED)
    before, after = (_tuned_cell(data, summary, "within", RANDOM, "test", steps, "") for steps in (untuned, own))
    says_before, says_after = before.outcome(), after.outcome()
    if before.effect is None or after.effect is None or says_after is None:
        return "Whether the gain is the effect of a larger step is not known yet: no step size has been searched."
    says = {Outcome.HOLDS: _SAYS[says_after], Outcome.OPEN: _SAYS[Outcome.OPEN]}.get(
        says_before or Outcome.OPEN, "there is no gain to explain"
    )
    return (
        f"With {UNTUNED} for all, sort within changes full random's test error by {_points(before.effect)}; with "
        f"the learning rates that held-out images choose, {own[RANDOM]} for full random and {own[ours]} for sort "
        f"within, by {_points(after.effect)}: {says}."
    )


def _points(effect: Effect) -> str:
    return f"{effect.mean:+.2f} points ({effect.low:+.2f} to {effect.high:+.2f})"


def tuned_tables(data: str, summary: Summary) -> list[Table]:
    """Held-out accuracy of every step size, and what the chosen one gives."""
    return [
        Table(
            name=f"{name_of(data)}-table",
            title=f"{TITLES[data]}: step sizes searched for every method",
            caption=f"{NET} net, batch {BATCH_SIZE}, 1/(1+t/n), ordered from epoch 0 of {NeuralRecipe.epochs}. "
            f"Accuracies (%, means over seeds): on the {HELD_OUT:.0%} of the training images held out, for each first "
            f"step size; then, with the one that is best there, on the other training images and on the test images. "
            f"{step_size_answer(data, summary)}",
            header=("method", *map(str, STEP_SIZES), "chosen", "train", "test"),
            rows=tuple(_row(data, variant, summary) for variant in VARIANTS),
            experiment=name_of(data),
        )
    ]


def _row(data: str, variant: Variant, summary: Summary) -> tuple[str, ...]:
    step = chosen_step_size(data, variant, summary)
    accuracy = partial(_accuracy, data, variant, summary)
    sort = "" if variant[1] == "none" else f", sort {variant[1]}"
    return (
        f"{variant[0]}{sort}",
        *(accuracy(one, "held_out") for one in STEP_SIZES),
        *(("-", "-", "-") if step is None else (_marked(step), accuracy(step, "train"), accuracy(step, "test"))),
    )


def _marked(step_size: float) -> str:
    return f"{step_size}{', an edge' if step_size in {min(STEP_SIZES), max(STEP_SIZES)} else ''}"


def _accuracy(data: str, variant: Variant, summary: Summary, step_size: float, split: str) -> str:
    runs = summary.get(tuned_recipe(data, variant, step_size))
    return "-" if runs is None else f"{runs.last[f'{split}_accuracy'].mean():.2f}"


def experiment(data: str, claims: Mapping[str, Callable[[Summary], Claim]]) -> Experiment:
    """The experiment on one data set; it feeds the claims that its readings belong to."""
    return Experiment(
        name_of(data),
        f"{TITLES[data]}: every method with a step size of its own",
        recipes=partial(tuned_recipes, data),
        claims=claims,
        figures=lambda _: [],
        tables=partial(tuned_tables, data),
        seeds={"mini": 5, "cpu": 5, "paper": 5},
    )
