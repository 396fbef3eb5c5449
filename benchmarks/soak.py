"""How often does it break? Kills at random moments, interruptions at every step, other numbers of processes.

Writes results/reliability.csv: what was tried, how often, and how often it failed. The property tests, with 3,000 cases
each, take the longest.
"""

import argparse
import csv
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

import gradorder as go
from gradorder_lab import paper
from gradorder_lab.commands import reproduce as command
from gradorder_lab.paper.network import NeuralRecipe
from gradorder_lab.runs.recipe import Recipe, Workspace
from gradorder_lab.runs.store import Store

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "reliability.csv"
CONVEX = ["synthetic-switch", "synthetic-far"]
NUM_SEEDS = 12
TIMES = ("seconds", "score_seconds")
NETWORK = NeuralRecipe(
    experiment="soak",
    data="mnist",
    size="mini",
    num_train=300,
    model="2-layer",
    method="mini ordered",
    sort="first",
    batch_size=50,
    epochs=20,
    start_epoch=8,
)

Numbers = dict[tuple[str, int], Mapping[str, bytes]]


@dataclass(frozen=True)
class Outcome:
    """One line of the table."""

    what: str
    tried: int
    failed: int


# ---------------------------------------------------------------- kills


def reproduce(out: Path) -> None:
    """The convex experiments, as the command runs them."""
    settings = command.Reproduction(seeds=NUM_SEEDS)
    command.reproduce(CONVEX, out, settings)


def train(out: Path) -> None:
    """Networks with checkpoints, their rows kept as the command keeps them."""
    with Store(out) as store:
        for seed in sorted(set(range(3)) - store.seeds(NETWORK)):
            store.add(NETWORK, seed, NETWORK.run(seed, Workspace(checkpoints=out / "checkpoints")), 0.0)


def numbers(out: Path, recipes: list[Recipe]) -> Numbers:
    """Every row that is kept, but for the times."""
    with Store(out) as store:
        return {
            (str(recipe), seed): {name: values.tobytes() for name, values in rows.items() if name not in TIMES}
            for recipe in recipes
            for seed, rows in store.rows(recipe).items()
        }


def in_a_child(work: Callable[[Path], None], out: Path) -> int:
    """Start the work in a process of its own, silently."""
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
        work(out)
        os._exit(0)
    return child


def killed_again_and_again(
    work: Callable[[Path], None], recipes: list[Recipe], num_kills: int, longest: float, seed: int
) -> tuple[int, int, int]:
    """Kills, rows lost, and ends that differ from an uninterrupted run."""
    moments = random.Random(seed)  # noqa: S311 - moments to kill at
    with tempfile.TemporaryDirectory() as place:
        straight_out = Path(place) / "straight"
        os.waitpid(in_a_child(work, straight_out), 0)
        straight = numbers(straight_out, recipes)
        kills = lost = different = 0
        for attempt in range(10**6):
            out, before = Path(place) / str(attempt), dict[tuple[str, int], Mapping[str, bytes]]()
            while kills < num_kills:
                child = in_a_child(work, out)
                time.sleep(moments.uniform(0, longest))
                is_over = os.waitpid(child, os.WNOHANG)[0] != 0
                if not is_over:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    kills += 1
                after = numbers(out, recipes)
                lost += len(before.keys() - after.keys())
                different += sum(straight[key] != rows for key, rows in after.items())
                before = after
                if is_over:
                    break
            if kills >= num_kills:
                os.waitpid(in_a_child(work, out), 0)
            different += numbers(out, recipes) != straight
            if kills >= num_kills:
                return kills, lost, different
    raise AssertionError


# ---------------------------------------------------------------- samplers


@dataclass(frozen=True)
class Setting:
    """One random choice of everything that a sampler depends on."""

    num_examples: int
    batch_size: int
    ordering: go.Ordering
    has_labels: bool
    is_dealt: bool
    keep: float
    drop_last: bool
    seed: int

    def sampler(self, num_replicas: int = 1, rank: int = 0) -> go.OrderedSampler:
        """A sampler for one process of several."""
        labels = torch.arange(self.num_examples) % 3 if self.has_labels else None
        return go.OrderedSampler(
            self.num_examples,
            self.batch_size,
            ordering=self.ordering,
            labels=labels,
            layout="dealt" if self.is_dealt else "contiguous",
            keep=self.keep,
            drop_last=self.drop_last,
            seed=self.seed,
            num_replicas=num_replicas,
            rank=rank,
        )

    def scores(self) -> torch.Tensor:
        """The same for the same setting."""
        return torch.rand(self.num_examples, generator=torch.Generator().manual_seed(self.seed))


def settings(num: int, *, tails: bool) -> Iterator[Setting]:
    """Random settings; without tails every batch is full, so that any number of processes can share it."""
    choose = random.Random(7)  # noqa: S311 - settings to try
    orderings = (go.Descending(), go.PlackettLuce(), go.Shuffled(), go.FlipFlop(go.Descending()))
    for seed in range(num):
        ordering = choose.choice(orderings)
        yield Setting(
            num_examples=choose.randrange(24, 90),
            batch_size=12,
            ordering=ordering,
            has_labels=choose.random() < 0.5,  # noqa: PLR2004 - a coin
            is_dealt=ordering.needs_scores and choose.random() < 0.5,  # noqa: PLR2004 - a coin
            keep=choose.choice((1.0, 0.7, 0.5)),
            drop_last=not tails or choose.random() < 0.5,  # noqa: PLR2004 - a coin
            seed=seed,
        )


def global_batches(setting: Setting, num_replicas: int, epoch: int) -> list[list[int]]:
    """The batches that the processes see together."""
    parts = []
    for rank in range(num_replicas):
        sampler = setting.sampler(num_replicas, rank)
        sampler.set_epoch(epoch, scores=setting.scores())
        indices = torch.tensor(list(sampler), dtype=torch.int64)
        parts.append(indices.split(sampler.loader_batch_size))
    return [torch.cat(slices).tolist() for slices in zip(*parts, strict=True)]


def other_world_sizes(num: int) -> Outcome:
    """The global batches for 2, 3 and 4 processes against those of one."""
    tried = failed = 0
    for setting in settings(num, tails=False):
        for epoch in (0, 1):
            expected = global_batches(setting, 1, epoch)
            for num_replicas in (2, 3, 4):
                tried += 1
                failed += global_batches(setting, num_replicas, epoch) != expected
    return Outcome("epochs planned for 2, 3 or 4 processes: batches other than those of one", tried, failed)


def resumed(num: int) -> Outcome:
    """Stopped after every step of an epoch and resumed, with the scores remembered so far."""
    tried = failed = 0
    for setting in settings(num, tails=True):
        straight = setting.sampler()
        straight.set_epoch(0, scores=setting.scores())
        order, states = list(straight), []
        iterator = iter(straight)
        for first in range(0, len(order), setting.batch_size):
            batch = [next(iterator) for _ in order[first : first + setting.batch_size]]
            straight.step(torch.tensor(batch, dtype=torch.float32))
            states.append((first + len(batch), straight.state_dict()))
        straight.set_epoch(1)
        following = list(straight)
        for place, state in states:
            again = setting.sampler()
            again.load_state_dict(state)
            rest = list(again)
            tried += 1
            failed += rest != order[place:]
            for first in range(0, len(rest), setting.batch_size):
                again.step(torch.tensor(rest[first : first + setting.batch_size], dtype=torch.float32))
            again.set_epoch(1)
            failed += list(again) != following
    return Outcome("epochs stopped at a step and resumed: batches other than the straight ones", tried, failed)


# ---------------------------------------------------------------- properties


def property_cases() -> Outcome:
    """Every property test with 3,000 cases, counted from hypothesis' own statistics."""
    files = [str(path) for path in (ROOT / "tests").rglob("test_*.py") if "@given" in path.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "--hypothesis-show-statistics", "-p", "no:cacheprovider", *files]
    variables = {**os.environ, "HYPOTHESIS_PROFILE": "thorough"}
    result = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)  # noqa: S603
    passed = [int(count) for count in re.findall(r"(\d+) passing", result.stdout)]
    failed = re.findall(r"^FAILED (\S+)", result.stdout, flags=re.MULTILINE)
    if not passed:
        sys.exit(result.stdout[-2000:] + result.stderr[-2000:])
    print(*failed, sep="\n")
    return Outcome("cases of property tests (failed: tests with a case that fails)", sum(passed), len(failed))


def main() -> None:
    """Run all of it and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=75, help="of each of the two kinds")
    parser.add_argument("--settings", type=int, default=400, help="of samplers")
    parser.add_argument("--without-properties", action="store_true", help="leave the longest part out")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    convex: list[Recipe] = [one for name in CONVEX for one in paper.EXPERIMENTS[name].recipes("mini")]
    outcomes = []
    network: list[Recipe] = [NETWORK]
    kinds = {"reproduce": (reproduce, convex, 1.5), "training": (train, network, 0.6)}
    for seed, (name, (work, recipes, longest)) in enumerate(kinds.items()):
        kills, lost, different = killed_again_and_again(work, recipes, chosen.kills, longest, seed)
        outcomes += [
            Outcome(f"kill -9 during {name}: rows lost", kills, lost),
            Outcome(f"kill -9 during {name}: rows other than the straight ones", kills, different),
        ]
        print(*outcomes[-2:], sep="\n", flush=True)
    outcomes += [other_world_sizes(chosen.settings), resumed(chosen.settings)]
    print(*outcomes[-2:], sep="\n", flush=True)
    if not chosen.without_properties:
        outcomes.append(property_cases())
        print(outcomes[-1], flush=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["what", "tried", "failed"])
        writer.writerows((one.what, one.tried, one.failed) for one in outcomes)
    sys.exit(any(one.failed for one in outcomes))


if __name__ == "__main__":
    main()
