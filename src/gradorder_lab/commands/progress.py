"""How far a call of `gradorder reproduce` is, as another process sees it: by its plan and what is in the store."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gradorder_lab import paper
from gradorder_lab.runs.recipe import Size
from gradorder_lab.runs.store import Store
from gradorder_lab.runs.whole_file import write_whole

PLAN = "plan.json"
"""The file beside the store."""


@dataclass(frozen=True)
class ReproductionPlan:
    """What a call of `reproduce` was asked for.

    Args:
        size: how much of each experiment.
        seeds: experiment -> paired seeds.
        num_finished: runs that were there before it began.
        started: when it began, in seconds since 1970.
        process: its number.
    """

    size: Size
    seeds: Mapping[str, int]
    num_finished: int
    started: float = field(default_factory=time.time)
    process: int = field(default_factory=os.getpid)

    def save(self, out: Path) -> None:
        """Leave it beside the store, whole or not at all."""
        write_whole(out / PLAN, json.dumps(asdict(self)))

    @classmethod
    def load(cls, out: Path) -> "ReproductionPlan | None":
        """What was left beside the store; None where nothing was, or nothing that this version can read."""
        try:
            plan = cls(**json.loads((out / PLAN).read_text(encoding="utf-8")))
            return plan if set(plan.seeds) <= set(paper.EXPERIMENTS) else None
        except (OSError, ValueError, TypeError):
            return None

    @property
    def is_running(self) -> bool:
        """Whether its process is still there."""
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # somebody else's, and there
        return True


@dataclass(frozen=True)
class Done:
    """Runs finished of those planned, of one experiment."""

    experiment: str
    num_finished: int
    num_planned: int


@dataclass(frozen=True)
class ReproductionProgress:
    """How far it is.

    Args:
        parts: experiment by experiment.
        is_running: whether somebody is at work.
        runs_per_minute: since the call began; None before anything was finished.
        seconds_left: at this rate; None where it cannot be said.
    """

    parts: tuple[Done, ...]
    is_running: bool
    runs_per_minute: float | None
    seconds_left: float | None

    @classmethod
    def of(cls, plan: ReproductionPlan, store: Store, now: float) -> "ReproductionProgress":
        """From the plan and what is in the store."""
        parts = tuple(_done(name, plan, store) for name in plan.seeds)
        num_finished = sum(part.num_finished for part in parts)
        num_left = sum(part.num_planned for part in parts) - num_finished
        minutes = (now - plan.started) / 60
        rate = (num_finished - plan.num_finished) / minutes if minutes > 0 else 0.0
        is_running = plan.is_running and num_left > 0
        return cls(
            parts=parts,
            is_running=is_running,
            runs_per_minute=rate if rate > 0 else None,
            seconds_left=60 * num_left / rate if is_running and rate > 0 else None,
        )


def _done(name: str, plan: ReproductionPlan, store: Store) -> Done:
    recipes = paper.EXPERIMENTS[name].recipes(plan.size)
    wanted = set(range(plan.seeds[name]))
    return Done(name, sum(len(store.seeds(recipe) & wanted) for recipe in recipes), len(recipes) * len(wanted))
