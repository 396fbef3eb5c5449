"""What stands on the page, as data: the template only lays it out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gradorder_lab import paper
from gradorder_lab.figures import Figure, Table
from gradorder_lab.judge.claims import Agreement, Claim, agreement
from gradorder_lab.judge.where import verdict_text, where_it_holds
from gradorder_lab.paper.experiment import Experiment, largest_size
from gradorder_lab.runs.origin import CONTENT
from gradorder_lab.runs.recipe import SIZES, Setting, Size
from gradorder_lab.runs.summary import Summary
from gradorder_lab.show.answer import answer
from gradorder_lab.show.chapters import COMMANDED, Block, Section, command_for, in_order
from gradorder_lab.show.evidence import ClaimTable, Evidence


@dataclass(frozen=True)
class ClaimRow:
    """A claim as a row.

    Args:
        claim: what it is of.
        evidence: every cell.
        figures: name -> title of what shows it.
        command: fills in what is missing; empty where nothing is or nothing can.
        shipped: the claim by the results that come along, restricted to the cells that were run in this directory;
            None on a page of the shipped results.
    """

    claim: Claim
    evidence: tuple[Evidence, ...]
    figures: Mapping[str, str]
    command: str
    shipped: Claim | None

    @property
    def number(self) -> str:
        """The claim's number: the lines of C12 share theirs."""
        return self.claim.name.rstrip("abc")

    @property
    def verdict_text(self) -> str:
        """The verdict with its size and its count."""
        return verdict_text(self.claim)

    @property
    def where(self) -> str:
        """Where it holds and where it does not."""
        return where_it_holds(self.claim)

    @property
    def table(self) -> ClaimTable:
        """Parts down, readings across."""
        return ClaimTable.of(self.evidence)

    @property
    def shipped_text(self) -> str:
        """The shipped verdict on the same cells."""
        return "" if self.shipped is None else verdict_text(self.shipped)

    @property
    def agreement(self) -> Agreement | None:
        """How many cells are decided alike here and in the shipped results."""
        return None if self.shipped is None else agreement(self.claim, self.shipped)


@dataclass(frozen=True, eq=False)
class Coverage:
    """An experiment, its size (None where all are the same), and what of it has been run."""

    experiment: Experiment
    size: Size | None
    num_recipes: int
    num_run: int
    seeds: str


@dataclass(frozen=True, eq=False)
class Page:
    """Everything."""

    answer: tuple[str, str, str]
    claims: tuple[ClaimRow, ...]
    sections: tuple[Section, ...]
    coverage: Mapping[str, Coverage]
    facts: Mapping[str, tuple[Setting, ...]]
    num_environments: int

    @property
    def has_data_hashes(self) -> bool:
        """Whether it is known what the runs were fed with."""
        return any(name.startswith(CONTENT) for name in self.facts)

    @property
    def has_shipped(self) -> bool:
        """Whether the shipped results stand beside what was run here."""
        return any(row.shipped is not None for row in self.claims)

    @property
    def figures(self) -> list[Figure]:
        """All figures that can be drawn, in order."""
        blocks = [block for section in self.sections for block in section.blocks if not block.is_empty]
        return [block.figure for block in blocks if block.figure is not None]


def page_of(summary: Summary, shipped_runs: Summary | None = None) -> Page:
    """All claims, all of the paper's figures and all experiments, run or not; `shipped_runs` is what comes along."""
    claims = paper.claims(summary)
    known = {} if shipped_runs is None else {claim.name: claim for claim in paper.claims(shipped_runs)}
    coverage = {name: _coverage(one, summary) for name, one in paper.EXPERIMENTS.items()}
    sections = in_order(_drawn(summary, coverage))
    incomplete = {name for name, one in coverage.items() if one.num_run < one.num_recipes}
    names = dict.fromkeys(name for facts in summary.environments for name in facts)
    every = [block for section in sections for block in section.blocks]
    return Page(
        answer=answer(claims),
        claims=tuple(_claim_row(claim, every, incomplete, known.get(claim.name)) for claim in claims),
        sections=sections,
        coverage=coverage,
        facts={name: tuple(facts.get(name) for facts in summary.environments) for name in names},
        num_environments=len(summary.environments),
    )


def _drawn(summary: Summary, coverage: Mapping[str, Coverage]) -> list[Figure | Table]:
    drawn: list[Figure | Table] = []
    for name, experiment in paper.EXPERIMENTS.items():
        drawn += experiment.figures(summary)
        drawn += experiment.tables(summary) if coverage[name].num_run else []
    return drawn


def _claim_row(claim: Claim, blocks: Sequence[Block], incomplete: Collection[str], known: Claim | None) -> ClaimRow:
    return ClaimRow(
        claim,
        evidence=tuple(Evidence.of(claim, cell) for cell in claim.cells),
        figures={one.name: one.title for one in blocks if claim.name in one.claims},
        command=command_for(_names_for(claim, incomplete)) if claim.count.missing else "",
        shipped=None if known is None else same_cells(claim, known),
    )


def same_cells(here: Claim, shipped_claim: Claim) -> Claim:
    """The shipped claim with the cells that have been run here."""
    return shipped_claim.only(cell for cell in here.cells if not cell.is_missing)


def _names_for(claim: Claim, incomplete: Collection[str]) -> list[str]:
    """The experiments to run for it: the incomplete ones or, where only common seeds are missing, all."""
    names = [name for name, experiment in paper.EXPERIMENTS.items() if claim.name in experiment.claims]
    return [name for name in names if name in incomplete] or names


def _coverage(experiment: Experiment, summary: Summary) -> Coverage:
    largest = largest_size(summary, experiment.recipes)
    is_run = any(summary.get(recipe) is not None for recipe in experiment.recipes(largest))
    size = largest if is_run else COMMANDED
    recipes = experiment.recipes(size)
    found = [runs for recipe in recipes if (runs := summary.get(recipe)) is not None]
    is_same = all(recipes == experiment.recipes(other) for other in SIZES)
    return Coverage(
        experiment=experiment,
        size=None if is_same else size,
        num_recipes=len(recipes),
        num_run=len(found),
        seeds=_range([len(runs.seeds) for runs in found]),
    )


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"
