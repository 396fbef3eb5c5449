"""What the referee found: a table for the terminal, and the tables of the documentation."""

from collections.abc import Iterable, Sequence
from math import isfinite, isnan
from statistics import median

from rich.console import Console
from rich.table import Table

from gradorder_lab.benchmark.measure import ACCURACY
from gradorder_lab.benchmark.referee import EqualCost, Judgement, Trial, judged
from gradorder_lab.benchmark.standings import Level, Mean
from gradorder_lab.benchmark.suites import CONFIRMATION, FINE_TUNING
from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import METHODS, RECOMMENDED, REFEREE

_LEGEND = (
    "cost: passes of examples, as a share of random reshuffling's; minus random: {unit} more than random reshuffling's "
    "whole run; at equal cost: {unit} more than a run of random reshuffling with the same cost. In brackets: 95% "
    "intervals over paired seeds."
)


def show_trials(console: Console, task: Task, trials: Sequence[Trial]) -> None:
    """Print one line for every method, and what the columns show."""
    seeds = min((len(trial.differences) for trial in trials), default=0)
    table = Table(title=f"{task.name}: {seeds} seeds", box=None, padding=(0, 2, 0, 0), title_justify="left")
    for name in ("method", "cost", "minus random", "at equal cost"):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for trial in sorted(trials, key=lambda trial: -trial.advantage.mean):
        table.add_row(trial.method, f"{trial.cost:.2f}", points(trial.difference), points(trial.advantage))
    console.print(table)
    console.print(_LEGEND.format(unit=unit_of(task)), highlight=False)


def unit_of(task: Task) -> str:
    """The unit of a difference on this task."""
    return "points" if task.measure == ACCURACY else "percent of the loss"


def points(difference: Mean) -> str:
    """A difference with its interval.

    >>> points(Mean(-0.1, -0.25, 0.05))
    '−0.10 (−0.25 to +0.05)'
    """
    if not isfinite(difference.mean):
        return "not known" if isnan(difference.mean) else "diverged"
    return f"{difference.mean:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})".replace("-", "−")


# -------------------------------------------------------------------- the documentation

TextTable = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""A header and rows."""

_LEVELS = {Level.NOT_WORSE: "not worse", Level.WORSE: "worse", Level.NOT_KNOWN: "not known"}
_ANSWERS = {EqualCost.BETTER: "better", EqualCost.WORSE: "worse", EqualCost.NOT_KNOWN: "not known"}


def methods_table(trials: Sequence[Trial]) -> TextTable:
    """One row for every method: on how many tasks it is not worse, and on how many it beats a shorter run."""
    claim = "saving that its paper claims"
    head = ("method", claim, "tasks", "cost", "against the whole run", "against a shorter run of the same cost")
    found = judged(trials)
    return head, [
        (
            _with_remark(name),
            METHODS[name].claim or "–",
            *_counts(found[name], [trial.task for trial in found[name].trials]),
        )
        for name in REFEREE
        if name in found
    ]


def _with_remark(name: str) -> str:
    remark = METHODS[name].remark
    return f"{name} ({remark})" if remark else name


def findings(trials: Sequence[Trial]) -> str:
    """Return a list: the answers that are known, with the methods that have them."""
    found = judged(trials)
    levels = {name: list(found[name].levels.values()) for name in REFEREE if name in found}
    answers = {name: list(found[name].at_equal_cost.values()) for name in levels}
    worse = [(name, of_tasks.count(Level.WORSE)) for name, of_tasks in levels.items()]
    better, shorter = (
        [(name, of_tasks.count(answer)) for name, of_tasks in answers.items()]
        for answer in (EqualCost.BETTER, EqualCost.WORSE)
    )
    return "\n".join(
        [
            f"- Worse than the whole run by more than the margin: {_by_count(worse)}.",
            f"- Better than a shorter run of the same cost: {_by_count(better)}.",
            f"- Worse than a shorter run of the same cost: {_by_count(shorter)}.",
        ]
    )


def _by_count(counts: Sequence[tuple[str, int]]) -> str:
    """From the largest count down, as "SeTa on 2 tasks, IES on 1; no other method".

    >>> _by_count([("IES", 1), ("RS2", 0), ("SeTa", 2)]), _by_count([("IES", 0)])
    ('SeTa on 2 tasks, IES on 1; no other method', 'no method')
    """
    some = sorted((one for one in counts if one[1] > 0), key=lambda one: -one[1])
    if not some:
        return "no method"
    told = [f"{name} on {count}" for name, count in some]
    told[0] += " tasks" if some[0][1] > 1 else " task"
    return ", ".join(told) + ("; no other method" if len(some) < len(counts) else "")


def groups_table(trials: Sequence[Trial]) -> TextTable:
    """The default, by groups of tasks."""
    head = ("tasks", "number", "gradients", "against the whole run", "against a shorter run of the same cost")
    judgement = judged(trials)[RECOMMENDED]
    tasks = [trial.task for trial in judgement.trials]
    names = dict.fromkeys(map(group_of, tasks))
    return head, [(name, *_counts(judgement, [task for task in tasks if group_of(task) == name])) for name in names]


def group_of(task: Task) -> str:
    """The group of a task in tables."""
    if task not in CONFIRMATION:
        return "images, used to tune the default"
    if task in FINE_TUNING:
        return "fine-tuning a pretrained network"
    if task.measure != ACCURACY:
        return "regression on tables"
    return "tables with noisy labels" if task.wrong_labels else "classification of tables"


def _counts(judgement: Judgement, tasks: Sequence[Task]) -> tuple[str, str, str, str]:
    names = [task.name for task in tasks]
    costs = sorted(trial.cost for trial in judgement.trials if trial.task in tasks)
    return (
        str(len(names)),
        f"{costs[0]:.2f} to {costs[-1]:.2f}" if len(costs) > 1 else f"{costs[0]:.2f}",
        _told((judgement.levels[name] for name in names), _LEVELS),
        _told((judgement.at_equal_cost[name] for name in names), _ANSWERS),
    )


def _told(found: Iterable[str], words: dict[Level, str] | dict[EqualCost, str]) -> str:
    """As "not worse on 3, not known on 1"."""
    answers = list(found)
    return ", ".join(f"{word} on {answers.count(answer)}" for answer, word in words.items() if answer in answers)


def trials_table(trials: Sequence[Trial]) -> TextTable:
    """One row for every trial."""
    spent = ("learning rate", "seeds", "gradients", "cost", "time")
    found_out = ("minus random", "against the whole run", "at equal cost", "against a shorter run")
    head = ("task", "method", *spent, *found_out)
    found = judged(trials)
    return head, [
        (
            trial.task.name,
            trial.method,
            f"{trial.step_size:g}",
            str(len(trial.differences)),
            f"{trial.gradients:.2f}",
            f"{trial.cost:.2f}",
            "–" if isnan(trial.time) else f"{trial.time:.2f}",
            points(trial.difference),
            _LEVELS[found[trial.method].levels[trial.task.name]],
            points(trial.advantage),
            _ANSWERS[found[trial.method].at_equal_cost[trial.task.name]],
        )
        for trial in trials
    ]


def losses_table(trials: Sequence[Trial]) -> TextTable:
    """The test loss and the accuracy of the default on the tasks with classes, from the largest rise of the loss."""
    head = ("task", "test loss, % of random's", "accuracy, points")
    found = [trial for trial in trials if trial.method == RECOMMENDED and trial.task.measure == ACCURACY]
    return head, [
        (trial.task.name, points(trial.loss), points(trial.difference))
        for trial in sorted(found, key=lambda trial: -trial.loss.low)
    ]


def timing_table(trials: Sequence[Trial]) -> TextTable:
    """What the default saves in time, for tasks from the shortest step to the longest."""
    head = ("task", "ms per step", "gradients", "processor time", "wall time", "time per gradient")
    timed = [trial for trial in trials if trial.method == RECOMMENDED and not isnan(trial.time)]
    return head, [
        (
            trial.task.name,
            _two_digits(1000 * trial.step_seconds),
            f"{trial.gradients:.2f}",
            f"{trial.time:.2f}",
            f"{trial.wall_time:.2f}",
            f"{trial.time / trial.gradients - 1:+.0%}".replace("-", "−"),
        )
        for trial in sorted(timed, key=lambda trial: trial.step_seconds)
    ]


def _two_digits(number: float) -> str:
    """Two digits that count, without an exponent.

    >>> _two_digits(0.724), _two_digits(163.2)
    ('0.72', '160')
    """
    return f"{float(f'{number:.2g}'):g}"


def promise(trials: Sequence[Trial]) -> str:
    """What was measured of the default, on the tasks that nothing was chosen on."""
    judgement = judged(trials)[RECOMMENDED]
    confirmed = [trial for trial in judgement.trials if trial.task in CONFIRMATION]
    names = [trial.task.name for trial in confirmed]
    saved = sorted(100 * (1 - trial.gradients) for trial in confirmed)
    whole = _told((judgement.levels[name] for name in names), _LEVELS)
    shorter = _told((judgement.at_equal_cost[name] for name in names), _ANSWERS)
    number = f"{len(names)} of {len(CONFIRMATION)}" if len(names) < len(CONFIRMATION) else f"all {len(names)}"
    return (
        f"`go.recommended` was measured on {number} confirmation tasks, on one thread of a CPU. It computed "
        f"{saved[0]:.0f}% to {saved[-1]:.0f}% fewer gradients than random reshuffling (median {median(saved):.0f}%). "
        f"Within a small margin, its result was {whole}. Compared with a run of random "
        f"reshuffling that is cut to the same cost, it was {shorter}."
    )
