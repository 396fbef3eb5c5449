"""Rollouts that GRPO needs with and without `go.Informative`, on a small task with verifiable rewards.

Task: 16 secret ciphers, each a permutation of the ten digits. A prompt is a cipher and one to three digits, the answer
the digits in that cipher; the reward is 1 if all of them are right, else 0. A GPT of two layers is pretrained on all
ciphers, but for half of them with 70% of the digits of an answer drawn at random. So at the start of the reinforcement
learning about half of the prompts are solved, and most prompts of three digits in the other ciphers are hopeless. There
are 480 training prompts and 480 held-out ones, with the same ciphers and other digits. Pass rates are exact: the
probability of the right answer.

Methods, all with groups of 8 completions, 16 groups per update, one update per generation batch, Adam:

- uniform: random reshuffling, as TRL's GRPOTrainer.
- informative: the same with `go.Informative(every=4)`, at the learning rate that was tuned for uniform.
- dynamic: as in DAPO, groups without spread are dropped after the rollout, and more prompts are generated until 16
  groups have spread, in at most 8 generation batches. All rollouts are counted. It has its own tuned learning rate.

Aims, fixed before the first row, for 10 seeds that neither tuning nor the design has seen:

1. informative reaches uniform's final training pass rate with fewer rollouts: the 95% interval of the mean share of
   rollouts over seeds ends below 1.
2. The same for the held-out pass rate.
3. At equal rollouts its held-out pass rate is not lower than uniform's by more than 0.01: the 95% interval of the mean
   difference begins above -0.01.

dynamic is reported, without an aim.

Analysis: a curve is the mean of the last 3 of its points, one point every 1,024 rollouts or later. The target of a seed
is uniform's curve at the budget of 25,600 rollouts. A share is the number of rollouts at which a curve first reaches
the target, linearly between points, divided by the budget. Every run has 1.25 times the budget; a curve that never
reaches the target has the share 1.25, and the table counts these. Intervals are Student's t over seeds. Tuning takes,
for uniform and dynamic alike, the learning rate of the grid with the highest mean training pass rate at the budget over
3 other seeds.

Design: the task, and the two visits per epoch that the rule allows an example, were chosen on seeds 1000 to 1003 before
all rows, and in favour of the rule: this is the fifth of five variants of the task. With 16 groups per update it ended
ahead of uniform in 4 of 6 pairs of runs, in all 3 with the learning rate 5e-4; four visits were worse than two. With 32
groups per update, and other pretraining, it ended behind uniform in 5 of 5 pairs, one seed each for most variants. The
learning rate 4e-3 came to the grid after the first 11 rows of tuning, as dynamic's best was the
largest, and before any judged row.

    python benchmarks/prompts_grpo.py tune      # append the missing runs to results/prompts_grpo.csv
    python benchmarks/prompts_grpo.py run       # of all methods, or of those that are named
    python benchmarks/prompts_grpo.py report    # print the table, draw docs/prompts.svg
"""

import argparse
import csv
import hashlib
import math
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import t as student
from torch import nn
from torch.nn import functional as F

import gradorder as go
from gradorder.integrations.prompts import PromptSampler
from gradorder_lab.runs.origin import facts

ROOT = Path(__file__).resolve().parent.parent
RESULTS, FIGURE = ROOT / "results" / "prompts_grpo.csv", ROOT / "docs" / "prompts.svg"

CIPHERS, KNOWN_CIPHERS, DIGITS, LONGEST = 16, 8, 10, 3
PER_LENGTH = {1: 5, 2: 12, 3: 13}
"""Training prompts of each cipher, by length; as many are held out."""
BLANK, SEPARATOR = DIGITS + CIPHERS, DIGITS + CIPHERS + 1
VOCABULARY = SEPARATOR + 1
PROMPT_LENGTH = LONGEST + 2

GROUP, GROUPS, MOST_BATCHES = 8, 16, 8
BUDGET, LONGER = 25_600, 1.25
POINT, WINDOW = 1_024, 3
PRETRAINING_STEPS, PRETRAINING_BATCH, PRETRAINING_LR, RIGHT = 500, 128, 3e-3, 0.3
LEARNING_RATES = (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)
METHODS = {"uniform": ("#59626c", "--"), "informative": ("#00664a", "-"), "dynamic": ("#a83a00", ":")}
"""Each with the colour and the dashes of its line."""
TUNED = ("uniform", "dynamic")
TUNING_SEEDS, SEEDS = (100, 101, 102), tuple(range(10))


@dataclass(frozen=True)
class Prompts:
    """Prompts and answers as tokens; an answer has `lengths` tokens that count."""

    tokens: torch.Tensor
    answers: torch.Tensor
    lengths: torch.Tensor

    @property
    def counts(self) -> torch.Tensor:
        """Whether each place of an answer counts, shape (N, LONGEST)."""
        return torch.arange(LONGEST) < self.lengths[:, None]


def prompts_of(ciphers: torch.Tensor, which: torch.Tensor, digits: torch.Tensor, lengths: torch.Tensor) -> Prompts:
    """The prompts for these ciphers and digits, blanks behind the digits."""
    is_blank = torch.arange(LONGEST) >= lengths[:, None]
    shown = digits.masked_fill(is_blank, BLANK)
    separator = torch.full((len(which), 1), SEPARATOR)
    tokens = torch.cat([DIGITS + which[:, None], shown, separator], dim=1)
    return Prompts(tokens, ciphers[which[:, None], digits], lengths)


@dataclass(frozen=True)
class Task:
    """The ciphers of a seed, and its prompts."""

    ciphers: torch.Tensor
    training: Prompts
    held_out: Prompts

    @classmethod
    def made(cls, seed: int) -> "Task":
        """Training and held-out prompts have no digits in common, cipher by cipher and length by length."""
        random = np.random.default_rng((seed, 0))
        ciphers = torch.from_numpy(np.stack([random.permutation(DIGITS) for _ in range(CIPHERS)]))
        parts: tuple[list[list[int]], list[list[int]]] = ([], [])
        for cipher in range(CIPHERS):
            for length, count in PER_LENGTH.items():
                numbers = random.choice(DIGITS**length, 2 * count, replace=False)
                rows = [[cipher, length, *(n // DIGITS**place % DIGITS for place in range(LONGEST))] for n in numbers]
                parts[0].extend(rows[:count])
                parts[1].extend(rows[count:])
        training, held_out = (torch.tensor(part) for part in parts)
        return cls(
            ciphers,
            prompts_of(ciphers, training[:, 0], training[:, 2:], training[:, 1]),
            prompts_of(ciphers, held_out[:, 0], held_out[:, 2:], held_out[:, 1]),
        )


class Block(nn.Module):
    """A transformer block with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then the layers, each added to its input."""
        size, length, width = x.shape
        parts = self.projections(self.before_attention(x)).view(size, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(found.transpose(1, 2).reshape(size, length, width))
        added: torch.Tensor = x + self.layers(self.before_layers(x))
        return added


class Gpt(nn.Module):
    """A small GPT; logits of the next token at every place."""

    def __init__(self, width: int = 64, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(PROMPT_LENGTH + LONGEST, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VOCABULARY))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits, shape (B, length, VOCABULARY)."""
        logits: torch.Tensor = self.head(self.blocks(self.tokens(tokens) + self.places[: tokens.shape[1]]))
        return logits


def answer_logits(model: nn.Module, tokens: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    """The logits of each token of these answers, shape (B, LONGEST, VOCABULARY)."""
    logits: torch.Tensor = model(torch.cat([tokens, answers[:, :-1]], dim=1))
    return logits[:, PROMPT_LENGTH - 1 :]


@torch.no_grad()
def pass_rates(model: nn.Module, prompts: Prompts) -> torch.Tensor:
    """The probability of each right answer, shape (N,)."""
    log_probs = answer_logits(model, prompts.tokens, prompts.answers).log_softmax(-1)
    chosen = log_probs.gather(2, prompts.answers[..., None])[..., 0]
    return (chosen * prompts.counts).sum(1).exp()


@cache
def pretrained(seed: int) -> dict[str, torch.Tensor]:
    """The weights after supervised training on the known ciphers, the same for all methods of a seed."""
    torch.manual_seed(seed)
    model, task, random = Gpt(), Task.made(seed), np.random.default_rng((seed, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=PRETRAINING_LR)
    for _ in range(PRETRAINING_STEPS):
        numbers = [
            random.integers(CIPHERS, size=PRETRAINING_BATCH),
            random.integers(DIGITS, size=(PRETRAINING_BATCH, LONGEST)),
            random.integers(1, LONGEST + 1, size=PRETRAINING_BATCH),
        ]
        which, digits, lengths = (torch.from_numpy(each) for each in numbers)
        prompts = prompts_of(task.ciphers, which, digits, lengths)
        is_noisy = (which >= KNOWN_CIPHERS)[:, None] & torch.from_numpy(random.random(digits.shape) > RIGHT)
        answers = torch.where(is_noisy, torch.from_numpy(random.integers(DIGITS, size=digits.shape)), prompts.answers)
        logits = answer_logits(model, prompts.tokens, answers)
        loss = F.cross_entropy(logits[prompts.counts], answers[prompts.counts])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


@dataclass(frozen=True)
class Rollouts:
    """Completions of some groups, with their rewards."""

    prompts: torch.Tensor
    answers: torch.Tensor
    rewards: torch.Tensor

    def part(self, groups: torch.Tensor) -> "Rollouts":
        """Some of the groups, given as booleans."""
        chosen = groups.repeat_interleave(GROUP)
        return Rollouts(self.prompts[chosen], self.answers[chosen], self.rewards[chosen])

    @property
    def have_spread(self) -> torch.Tensor:
        """Whether the rewards of each group differ."""
        lowest, highest = self.rewards.view(-1, GROUP).aminmax(dim=1)
        return highest > lowest


@torch.no_grad()
def generated(model: nn.Module, task: Prompts, prompts: torch.Tensor, generator: torch.Generator) -> Rollouts:
    """Sampled answers to these prompts, one for each."""
    tokens = task.tokens[prompts]
    for _ in range(LONGEST):
        probabilities = model(tokens)[:, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(probabilities, 1, generator=generator)], dim=1)
    answers = tokens[:, PROMPT_LENGTH:]
    is_right = (answers == task.answers[prompts]) | ~task.counts[prompts]
    return Rollouts(prompts, answers, is_right.all(1).float())


def grpo_loss(model: nn.Module, task: Prompts, rollouts: Rollouts) -> torch.Tensor:
    """GRPO without a KL term, on the policy that generated: the mean over the tokens that count."""
    grouped = rollouts.rewards.view(-1, GROUP)
    advantages = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)
    logits = answer_logits(model, task.tokens[rollouts.prompts], rollouts.answers)
    log_probs = logits.log_softmax(-1).gather(2, rollouts.answers[..., None])[..., 0]
    counts = task.counts[rollouts.prompts]
    return -(log_probs * advantages.view(-1, 1) * counts).sum() / counts.sum()


def batches_of(sampler: PromptSampler) -> Iterator[torch.Tensor]:
    """Generation batches, epoch after epoch."""
    for epoch in range(sys.maxsize):
        sampler.plan(epoch)
        yield from torch.tensor(list(sampler)).split(GROUP * GROUPS)


def trained_on(
    method: str, model: nn.Module, task: Prompts, sampler: PromptSampler, generator: torch.Generator
) -> Iterator[tuple[int, Rollouts]]:
    """For every update: how many rollouts were generated for it, and those that it is made with."""
    batches = batches_of(sampler)
    while True:
        kept: list[Rollouts] = []
        num_groups = num_rollouts = 0
        for _ in range(MOST_BATCHES if method == "dynamic" else 1):
            rollouts = generated(model, task, next(batches), generator)
            sampler.record(rollouts.prompts, rollouts.rewards)
            num_rollouts += len(rollouts.prompts)
            if method == "dynamic":
                rollouts = rollouts.part(rollouts.have_spread)
            kept.append(rollouts)
            num_groups += len(rollouts.prompts) // GROUP
            if num_groups >= GROUPS:
                break
        size = GROUPS * GROUP
        joined = [torch.cat([getattr(each, field.name) for each in kept])[:size] for field in fields(Rollouts)]
        yield num_rollouts, Rollouts(*joined)


@dataclass(frozen=True)
class Run:
    """One training, with its curves as numbers separated by blanks, and where it comes from.

    A wasted group has no spread, or was generated by "dynamic" beyond the 16 that it needs.
    """

    purpose: str
    method: str
    learning_rate: float
    seed: int
    updates: int
    share_wasted: float
    rollouts: str
    training: str
    held_out: str
    seconds: float
    command: str
    commit: str
    host: str
    machine: str
    python: str
    torch: str
    numpy: str


def run(purpose: str, method: str, learning_rate: float, seed: int) -> Run:
    """Train once, with a point of the curves about every `POINT` rollouts."""
    started = time.perf_counter()
    task, model = Task.made(seed), Gpt()
    model.load_state_dict(pretrained(seed))
    ordering = go.Informative(every=4) if method == "informative" else go.Shuffled()
    size = len(task.training.tokens)
    sampler = PromptSampler(size, prompts_per_batch=GROUPS, num_generations=GROUP, ordering=ordering, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    generator = torch.Generator().manual_seed(seed)
    points = [(0, float(pass_rates(model, task.training).mean()), float(pass_rates(model, task.held_out).mean()))]
    num_rollouts = updates = num_without = 0
    for count, rollouts in trained_on(method, model, task.training, sampler, generator):
        optimizer.zero_grad()
        if len(rollouts.prompts):  # else no group has spread, and there is nothing to train on
            grpo_loss(model, task.training, rollouts).backward()
            optimizer.step()
        num_rollouts, updates = num_rollouts + count, updates + 1
        num_without += count // GROUP - int(rollouts.have_spread.sum())
        if num_rollouts >= points[-1][0] + POINT:
            rates = [float(pass_rates(model, part).mean()) for part in (task.training, task.held_out)]
            points.append((num_rollouts, rates[0], rates[1]))
        if num_rollouts >= LONGER * BUDGET:
            break
    curves = [" ".join(f"{value:.5g}" for value in column) for column in zip(*points, strict=True)]
    return Run(
        purpose,
        method,
        learning_rate,
        seed,
        updates,
        share_wasted=round(num_without / (num_rollouts / GROUP), 4),
        rollouts=curves[0],
        training=curves[1],
        held_out=curves[2],
        seconds=round(time.perf_counter() - started, 1),
        **origin(),
    )


def origin() -> dict[str, Any]:
    """Where a row comes from."""
    found = facts()
    host = hashlib.sha256(platform.node().encode()).hexdigest()[:12]
    command = " ".join(["python", "benchmarks/prompts_grpo.py", *sys.argv[1:]])
    names = ("commit", "machine", "python", "torch", "numpy")
    return {"command": command, "host": host} | {name: str(found[name]) for name in names}


# ------------------------------------------------------------------------------------------------ rows


def read_runs() -> list[Run]:
    """All rows so far."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = {"learning_rate": float, "seed": int, "updates": int, "share_wasted": float, "seconds": float}
    return [Run(**{name: kinds.get(name, str)(value) for name, value in row.items()}) for row in rows]


def append(made: Run) -> None:
    """One more row, with the head of the table before the first."""
    is_new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Run)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(made))


def complete(purpose: str, wanted: Sequence[tuple[str, float, int]]) -> None:
    """Make the runs that are missing, each a method, a learning rate and a seed."""
    if origin()["commit"].endswith("dirty"):
        raise SystemExit("the code must be committed before rows are made with it")
    there = {(row.method, row.learning_rate, row.seed) for row in read_runs() if row.purpose == purpose}
    for one in wanted:
        if one not in there:
            made = run(purpose, *one)
            append(made)
            print(purpose, *one, made.training.rsplit(" ", 1)[-1], made.held_out.rsplit(" ", 1)[-1], flush=True)


def tune(methods: Sequence[str]) -> None:
    """Every learning rate of the grid, for the methods that are tuned."""
    tuned = [method for method in TUNED if method in methods]
    complete("tuning", [(method, rate, seed) for seed in TUNING_SEEDS for method in tuned for rate in LEARNING_RATES])


def run_all(methods: Sequence[str]) -> None:
    """The rows that are judged; seed by seed, so that all methods share a pretrained model."""
    rows = read_runs()
    rates = {method: tuned_rate(rows, method) for method in methods}
    complete("judged", [(method, rate, seed) for seed in SEEDS for method, rate in rates.items()])


# ------------------------------------------------------------------------------------------------ analysis


@dataclass(frozen=True)
class Curve:
    """Rollouts, and the mean of the last points of a pass rate."""

    rollouts: np.ndarray[tuple[int], np.dtype[np.float64]]
    rates: np.ndarray[tuple[int], np.dtype[np.float64]]

    @classmethod
    def of(cls, row: Run, part: str) -> "Curve":
        """Of the "training" or "held_out" prompts."""
        rollouts, rates = (np.array(text.split(), dtype=float) for text in (row.rollouts, getattr(row, part)))
        smooth = [rates[max(0, end - WINDOW) : end].mean() for end in range(1, len(rates) + 1)]
        return cls(rollouts, np.array(smooth))

    def at(self, rollouts: float) -> float:
        """The pass rate there, linearly between points."""
        return float(np.interp(rollouts, self.rollouts, self.rates))

    def first(self, target: float) -> float:
        """The rollouts at which it first reaches the target; infinity if it does not."""
        reached = np.flatnonzero(self.rates >= target)
        if not len(reached):
            return math.inf
        end = int(reached[0])
        if end == 0:
            return 0.0
        part = (target - self.rates[end - 1]) / (self.rates[end] - self.rates[end - 1])
        return float(self.rollouts[end - 1] + part * (self.rollouts[end] - self.rollouts[end - 1]))


def tuned_rate(rows: Sequence[Run], method: str) -> float:
    """The learning rate of a method; ours has uniform's."""
    tuned, means = method if method in TUNED else "uniform", {}
    for rate in LEARNING_RATES:
        of_rate = [row for row in rows if (row.purpose, row.method, row.learning_rate) == ("tuning", tuned, rate)]
        if {row.seed for row in of_rate} != set(TUNING_SEEDS):
            raise SystemExit(f"tuning of {tuned} with the learning rate {rate} is not complete")
        means[rate] = float(np.mean([Curve.of(row, "training").at(BUDGET) for row in of_rate]))
    return max(means, key=means.__getitem__)


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its 95% interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Student's t."""
        half = float(student.ppf(0.975, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        mean = float(np.mean(values))
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Comparison:
    """A method beside uniform, on training or held-out prompts."""

    method: str
    part: str
    share: Mean
    num_missed: int
    difference: Mean

    @property
    def share_text(self) -> str:
        """If some seeds missed the target, the mean is a lower bound. If most did, it is not shown."""
        missed = f"missed by {self.num_missed} of {len(SEEDS)} seeds"
        if self.num_missed > len(SEEDS) / 2:
            return missed
        return f"at least {self.share}, {missed}" if self.num_missed else str(self.share)


def compared(rows: Sequence[Run], method: str, part: str) -> Comparison:
    """Seed by seed, both with the same prompts and the same pretrained model."""
    shares, differences = [], []
    judged = {(row.method, row.seed): row for row in rows if row.purpose == "judged"}
    for seed in SEEDS:
        own, uniform = (Curve.of(judged[each, seed], part) for each in (method, "uniform"))
        target = uniform.at(BUDGET)
        shares.append(own.first(target) / BUDGET)
        differences.append(own.at(BUDGET) - target)
    num_missed = sum(share > LONGER for share in shares)
    return Comparison(method, part, Mean.of([min(share, LONGER) for share in shares]), num_missed, Mean.of(differences))


def report(methods: Sequence[str]) -> None:
    """Print what docs/prompts.md says, and draw its figure."""
    rows = read_runs()
    print("learning rates", {method: tuned_rate(rows, method) for method in methods})
    for part in ("training", "held_out"):
        for method in methods:
            found = compared(rows, method, part)
            print(f"{part:9} {method:12} share {found.share_text}; difference {found.difference}")
    for method in methods:
        mine = [row for row in rows if (row.purpose, row.method) == ("judged", method)]
        shares, updates = [row.share_wasted for row in mine], [row.updates for row in mine]
        print(f"{method:12} wasted groups {np.mean(shares):.3f}  updates {np.mean(updates):.0f}")
    write_figure(rows, methods, FIGURE)


def write_figure(rows: Sequence[Run], methods: Sequence[str], path: Path) -> None:
    """The same rows give the same file."""
    with mpl.rc_context({"svg.hashsalt": "gradorder", "svg.fonttype": "path", "font.size": 10}):
        draw(rows, methods).savefig(path, metadata={"Date": None, "Creator": None})


def draw(rows: Sequence[Run], methods: Sequence[str]) -> Figure:
    """The mean pass rates over seeds, one below the other, wide enough for a telephone."""
    figure = Figure(figsize=(3.9, 5.2), layout="constrained")
    grid = np.arange(0, BUDGET + 1, POINT)
    for axes, part in zip(figure.subplots(2, 1, sharex=True), ("training", "held_out"), strict=True):
        for method in methods:
            colour, dash = METHODS[method]
            of_method = [row for row in rows if (row.purpose, row.method) == ("judged", method)]
            rates = np.array([[Curve.of(row, part).at(float(place)) for place in grid] for row in of_method])
            axes.plot(grid / 1000, rates.mean(0), color=colour, linestyle=dash, label=method)
        axes.set_title(f"{part.replace('_', '-')} prompts", fontsize=10, loc="left")
        axes.set_ylabel("pass rate")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dde1e5")
    axes.set_xlabel("rollouts, thousands")
    axes.legend(frameon=False, loc="lower right")
    return figure


COMMANDS = {"tune": tune, "run": run_all, "report": report}


def main() -> None:
    """One of the commands."""
    parser = argparse.ArgumentParser(description="Rollouts that GRPO needs with and without go.Informative.")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help="uniform, informative, dynamic; default: all")
    arguments = parser.parse_args()
    COMMANDS[arguments.command](arguments.methods or list(METHODS))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
