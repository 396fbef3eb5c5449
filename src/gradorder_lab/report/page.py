"""What stands on the page, as data: the template only lays it out."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gradorder_lab import experiments
from gradorder_lab.claims import Claim, Comparison, Verdict
from gradorder_lab.experiment import SIZES, Experiment, Size, largest_size
from gradorder_lab.figures import Figure
from gradorder_lab.recipe import Setting
from gradorder_lab.report import readable
from gradorder_lab.report.forest import ForestLine
from gradorder_lab.summary import Summary
from gradorder_lab.tables import Table


@dataclass(frozen=True)
class Evidence:
    """A comparison in words. Without numbers where its runs are missing."""

    data: str
    what: str
    reading: str
    is_primary: bool
    outcome: str = "missing"
    effect: str = "–"
    interval: str = "–"
    remark: str = ""
    won: str = "–"
    num_seeds: int = 0
    loss_difference: str = "–"
    line: ForestLine | None = None

    @classmethod
    def of(cls, comparison: Comparison) -> "Evidence":
        """The numbers of this comparison."""
        what = comparison.what.replace(" - ", " − ")
        about = (comparison.data, what, comparison.reading, comparison.is_primary)
        effect = comparison.effect
        if effect is None:
            return cls(*about)
        return cls(
            *about,
            outcome=str(comparison.outcome),
            effect=readable.number(effect, effect.mean),
            interval=readable.interval(effect),
            remark=readable.remark(effect),
            won=f"{effect.won:.0%}",
            num_seeds=effect.num_seeds,
            loss_difference=readable.percent(effect.loss_difference),
            line=ForestLine.of(comparison, effect),
        )


@dataclass(frozen=True)
class DataVerdict:
    """A claim on one data set; `evidence` is the comparison to show first, None where it was not run."""

    data: str
    verdict: Verdict
    evidence: Evidence | None


@dataclass(frozen=True)
class ClaimRow:
    """A claim as a row; `command` fills in what is missing, empty where nothing is or nothing can."""

    name: str
    text: str
    note: str
    verdict: Verdict
    parts: tuple[DataVerdict, ...]
    evidence: tuple[Evidence, ...]
    figures: Mapping[str, str]
    command: str


@dataclass(frozen=True, eq=False)
class MissingPart:
    """Curves that a figure lacks."""

    panel: str
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FigureBlock:
    """A figure, with what it lacks and the command that fills it."""

    figure: Figure
    missing: tuple[MissingPart, ...]
    is_empty: bool
    command: str

    @classmethod
    def of(cls, figure: Figure) -> "FigureBlock":
        """From the figure."""
        missing = tuple(MissingPart(panel.title, panel.missing) for panel in figure.panels if panel.missing)
        is_empty = not any(panel.curves for panel in figure.panels)
        return cls(figure, missing, is_empty, command_for([figure.experiment]))


@dataclass(frozen=True, eq=False)
class Section:
    """An experiment, its size (None where all are the same), its figures and tables, and what of it has been run."""

    experiment: Experiment
    size: Size | None
    blocks: tuple[FigureBlock, ...]
    tables: tuple[Table, ...]
    num_recipes: int
    num_run: int
    seeds: str
    command: str


@dataclass(frozen=True, eq=False)
class Page:
    """Everything."""

    claims: tuple[ClaimRow, ...]
    counts: Mapping[str, int]
    sections: tuple[Section, ...]
    facts: Mapping[str, tuple[Setting, ...]]
    num_environments: int

    @property
    def figures(self) -> list[Figure]:
        """All figures in order."""
        return [block.figure for section in self.sections for block in section.blocks]


def page_of(summary: Summary) -> Page:
    """All claims and all experiments, run or not."""
    sections = tuple(_section(experiment, summary) for experiment in experiments.EXPERIMENTS.values())
    titles = {block.figure.name: block.figure.title for section in sections for block in section.blocks}
    incomplete = {section.experiment.name for section in sections if section.num_run < section.num_recipes}
    claims = tuple(_claim_row(claim, titles, incomplete) for claim in experiments.claims(summary))
    counts = Counter(claim.verdict for claim in claims)
    return Page(
        claims=claims,
        counts={verdict: counts[verdict] for verdict in Verdict if counts[verdict]},
        sections=sections,
        facts=_facts(summary.environments),
        num_environments=len(summary.environments),
    )


def command_for(names: Sequence[str]) -> str:
    """What runs these experiments."""
    return f"gradorder reproduce {' '.join(names)} --size cpu"


def _claim_row(claim: Claim, titles: Mapping[str, str], incomplete: Collection[str]) -> ClaimRow:
    is_missing = any(comparison.effect is None for comparison in claim.comparisons)
    return ClaimRow(
        name=claim.name,
        text=claim.text,
        note=claim.note,
        verdict=claim.verdict,
        parts=tuple(_data_verdict(claim, data) for data in claim.data),
        evidence=tuple(Evidence.of(comparison) for comparison in claim.comparisons),
        figures={name: titles[name] for name in claim.figures},
        command=command_for(_names_for(claim, incomplete)) if is_missing else "",
    )


def _names_for(claim: Claim, incomplete: Collection[str]) -> list[str]:
    """The experiments to run for it: the incomplete ones or, where only common seeds are missing, all."""
    names = [name for name, experiment in experiments.EXPERIMENTS.items() if claim.name in experiment.claim_names]
    return [name for name in names if name in incomplete] or names


def _data_verdict(claim: Claim, data: str) -> DataVerdict:
    headline = claim.headline_on(data)
    return DataVerdict(data, claim.verdict_on(data), None if headline is None else Evidence.of(headline))


def _section(experiment: Experiment, summary: Summary) -> Section:
    size = largest_size(summary, experiment.recipes)
    recipes = experiment.recipes(size)
    found = [runs for recipe in recipes if (runs := summary.get(recipe)) is not None]
    return Section(
        experiment=experiment,
        size=size if recipes != experiment.recipes(SIZES[0]) or recipes != experiment.recipes(SIZES[-1]) else None,
        blocks=tuple(FigureBlock.of(figure) for figure in experiment.figures(summary)),
        tables=tuple(experiment.tables(summary)) if found else (),
        num_recipes=len(recipes),
        num_run=len(found),
        seeds=_range([len(runs.seeds) for runs in found]),
        command=command_for([experiment.name]),
    )


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _facts(environments: Sequence[Mapping[str, Setting]]) -> dict[str, tuple[Setting, ...]]:
    """Fact -> its value in each environment."""
    names = dict.fromkeys(name for facts in environments for name in facts)
    return {name: tuple(facts.get(name) for facts in environments) for name in names}
