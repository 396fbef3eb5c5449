"""The history of training: a few numbers for every example, from the losses that `step` was given.

A visit is one batch that holds the example. An example is learned at a visit if its margin is positive or, without
margins, if its loss is below a bound. It is forgotten if it was learned at the visit before and no longer is.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch

from gradorder import checks
from gradorder.ranks import Ranks

HALF = math.log(2)
"""The cross-entropy of a label with probability 1/2: below it, no other label has a higher probability."""


@dataclass(eq=False)
class History:
    """One number per example in each column; NaN or -1 for an example that was never visited."""

    visits: torch.Tensor
    """How often the example was trained on."""
    first_learned: torch.Tensor
    """The epoch in which it was learned first, -1 for never."""
    times_forgotten: torch.Tensor
    """How often it was learned and then no longer."""
    is_learned: torch.Tensor
    """Whether it was learned at its last visit."""
    last_loss: torch.Tensor
    mean_loss: torch.Tensor
    """Over all visits."""
    margin_visits: torch.Tensor
    """How many of the visits came with a margin."""
    area_under_margin: torch.Tensor
    """The mean margin over these."""

    @classmethod
    def empty(cls, num_examples: int) -> Self:
        """Return the columns before the first visit."""
        count, real = torch.zeros(num_examples, dtype=torch.int32), torch.full((num_examples,), math.nan)
        return cls(
            visits=count,
            first_learned=count - 1,
            times_forgotten=count.clone(),
            is_learned=count.bool(),
            last_loss=real,
            mean_loss=real.clone(),
            margin_visits=count.clone(),
            area_under_margin=real.clone(),
        )

    def add(
        self, epochs: torch.Tensor, where: torch.Tensor, losses: torch.Tensor, margins: torch.Tensor, below: float
    ) -> None:
        """Add one visit of each of these examples, all of them different; NaN for no margin."""
        has_margin = ~margins.isnan()
        is_learned = torch.where(has_margin, margins > 0, losses < below)
        self.times_forgotten[where] += (self.is_learned[where] & ~is_learned).int()
        first = self.first_learned[where]
        self.first_learned[where] = torch.where((first < 0) & is_learned, epochs.int(), first)
        self.is_learned[where] = is_learned
        self.last_loss[where] = losses.float()
        _extend_means(self.mean_loss, self.visits, where, losses)
        _extend_means(self.area_under_margin, self.margin_visits, where[has_margin], margins[has_margin])


@final
class Recorder:
    """Records a few numbers about every example from the losses given to `step`.

    The columns take about 30 bytes per example. The visits of the current epoch wait beside them until the next epoch is
    planned, when it is known whether its steps match its batches. With several processes each keeps its own visits until
    `gather` brings them together.

    Args:
        num_examples: the size of the dataset.
        ranks: the processes that share the run.
        learned_below: the loss below which an example counts as learned, if no margins are given.
    """

    def __init__(self, num_examples: int, ranks: Ranks, learned_below: float = HALF) -> None:
        self.learned_below = learned_below
        self._ranks = ranks
        self._columns = History.empty(num_examples)
        self._own: list[_Visits] = []  # of this process, batch by batch
        self._gathered: list[tuple[torch.Tensor, torch.Tensor]] = []  # of all processes

    def note(
        self, epoch: int, examples: npt.NDArray[Any], losses: torch.Tensor, margins: torch.Tensor | None
    ) -> None:
        """Record the visits of one batch."""
        self._own.append(_Visits(epoch, examples, losses.clone(), margins))

    def gather(self) -> None:
        """Bring the visits of all processes together; call it on all of them."""
        rows, values = self._ranks.gathered(*_as_tensors(self._own))
        self._own = []
        # Step by step, and within a step the slices in the order of the ranks.
        order = rows[:, 0].argsort(stable=True) if self._ranks.is_connected else torch.arange(len(rows))
        if len(order):
            self._gathered.append((rows[order, 1:], values[order]))

    def settle(self, discarded: torch.Tensor) -> None:
        """Write the gathered visits into the columns, except those of discarded examples."""
        for rows, values in self._gathered:
            _write(self._columns, rows, values, discarded, self.learned_below)
        self._gathered = []

    def columns(self, *, without: torch.Tensor) -> History:
        """Return a copy of the columns with the visits that are known so far, except those of some examples."""
        if not self._ranks.is_connected:
            self.gather()
        known = copy.deepcopy(self._columns)
        for rows, values in self._gathered:
            _write(known, rows, values, without, self.learned_below)
        return known

    def state(self) -> dict[str, Any]:
        """Return columns, waiting visits and the bound, the same on all processes."""
        self.gather()
        rows, values = _concatenated(self._gathered)
        return {"learned_below": self.learned_below, "waiting": rows, "waiting_values": values, **vars(self._columns)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], num_examples: int, ranks: Ranks) -> Self:
        """Restore the result of `state`."""
        recorder = cls(num_examples, ranks, checks.positive("learned_below of the state", state.get("learned_below")))
        for each in fields(History):
            empty, column = getattr(recorder._columns, each.name), state.get(each.name)
            if not isinstance(column, torch.Tensor) or column.shape != empty.shape or column.dtype != empty.dtype:
                shape = tuple(column.shape) if isinstance(column, torch.Tensor) else None
                raise ValueError(f"state must hold {each.name} of {num_examples} numbers, got shape {shape}")
            setattr(recorder._columns, each.name, column.clone())
        rows, values = state.get("waiting"), state.get("waiting_values")
        _check_waiting(rows, values, num_examples)
        # Every process has the gathered visits: they are not gathered again.
        recorder._gathered = [(rows, values)] if len(rows) else []
        return recorder


@dataclass(frozen=True, eq=False)
class _Visits:
    """The visits of one batch."""

    epoch: int
    examples: npt.NDArray[Any]
    losses: torch.Tensor
    margins: torch.Tensor | None


def _as_tensors(visits: list[_Visits]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows (step, epoch, example), and beside them (loss, margin); NaN for no margin."""
    if not visits:
        return torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 2, dtype=torch.float64)
    sizes = [len(each.examples) for each in visits]
    steps, epochs = np.repeat([range(len(visits)), [each.epoch for each in visits]], sizes, axis=1)
    rows = np.stack([steps, epochs, np.concatenate([each.examples for each in visits])], 1)
    losses = torch.cat([each.losses.cpu().double() for each in visits])
    margins = torch.full_like(losses, math.nan)
    for part, each in zip(margins.split(sizes), visits, strict=True):
        if each.margins is not None:
            part.copy_(each.margins)
    return torch.from_numpy(rows), torch.stack([losses, margins], 1)


def _concatenated(parts: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [part[0] for part in parts] or [torch.empty(0, 2, dtype=torch.int64)]
    values = [part[1] for part in parts] or [torch.empty(0, 2, dtype=torch.float64)]
    return torch.cat(rows), torch.cat(values)


def _check_waiting(rows: object, values: object, num_examples: int) -> None:
    is_fit = (
        isinstance(rows, torch.Tensor)
        and isinstance(values, torch.Tensor)
        and rows.dtype == torch.int64
        and rows.ndim == values.ndim == 2  # noqa: PLR2004 - tables
        and rows.shape[1] == values.shape[1] == 2  # noqa: PLR2004 - of two columns
        and len(rows) == len(values)
        and bool((rows >= 0).all() and (rows[:, 1] < num_examples).all())
    )
    if not is_fit:
        raise ValueError(f"state must hold the waiting visits of examples 0 to {num_examples - 1}, with two values each")


def _write(
    columns: History, rows: torch.Tensor, values: torch.Tensor, discarded: torch.Tensor, learned_below: float
) -> None:
    if len(discarded):
        is_kept = ~torch.isin(rows[:, 1], discarded)
        rows, values = rows[is_kept], values[is_kept]
    epochs, where = rows.T
    losses, margins = values.T
    for turn in _turns(where):
        columns.add(epochs[turn], where[turn], losses[turn], margins[turn], learned_below)


def _turns(examples: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the places of the first visits of all examples, then of the second ones, and so on."""
    if len(examples) and int(examples.bincount().max()) == 1:
        yield torch.arange(len(examples))
        return
    order = examples.argsort(stable=True)
    in_order = examples[order]
    is_first = torch.ones(len(order), dtype=torch.bool)
    is_first[1:] = in_order[1:] != in_order[:-1]
    starts = torch.arange(len(order)).where(is_first, 0).cummax(0).values
    turn = torch.arange(len(order)) - starts
    for number in range(int(turn.max()) + 1 if len(turn) else 0):
        yield order[turn == number]


def _extend_means(means: torch.Tensor, counts: torch.Tensor, where: torch.Tensor, values: torch.Tensor) -> None:
    counts[where] += 1
    before = torch.where(counts[where] == 1, 0.0, means[where])
    change = torch.where(before.isinf(), values, (values - before) / counts[where])  # an infinite mean stays infinite
    means[where] = (before + change).float()
