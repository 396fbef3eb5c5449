"""What training has seen of every example, visit by visit, in a few numbers for each.

A visit is one batch with the example in it, with the loss that `step` was given. An example is learned at a visit if
its margin is positive there or, where no margins are given, if its loss is below a bound; it is forgotten if it was
learned at the visit before and no longer is.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, final

import numpy as np
import torch

from gradorder.ranks import Ranks
from gradorder.sampler.layout import Indices

HALF = math.log(2)
"""The cross-entropy of a label with half of the probability: below it, no other label has more."""


@dataclass(eq=False)
class History:
    """One number per example in each; what was never visited has NaN, or -1."""

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
        """Nothing was visited yet."""
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
        """One visit more of each of these examples, all of them different; NaN for no margin."""
        has_margin = ~margins.isnan()
        is_learned = torch.where(has_margin, margins > 0, losses < below)
        self.times_forgotten[where] += (self.is_learned[where] & ~is_learned).int()
        first = self.first_learned[where]
        self.first_learned[where] = torch.where((first < 0) & is_learned, epochs.int(), first)
        self.is_learned[where] = is_learned
        self.last_loss[where] = losses.float()
        _extend_means(self.mean_loss, self.visits, where, losses)
        _extend_means(self.area_under_margin, self.margin_visits, where[has_margin], margins[has_margin])


@dataclass(frozen=True, eq=False)
class _Visits:
    """Of one batch."""

    epoch: int
    examples: Indices
    losses: torch.Tensor
    margins: torch.Tensor | None


@final
class Recorder:
    """A few numbers about every example, gathered from `step`.

    The memory is about 30 bytes per example; the visits of the epoch under way wait beside it until the next one is
    planned, or the state is asked for. With several processes each keeps its own until then.

    Args:
        num_examples: of the data set.
        ranks: the processes that share the run.
        learned_below: the loss below which an example is learned, where no margins are given.
    """

    def __init__(self, num_examples: int, ranks: Ranks, learned_below: float = HALF) -> None:
        self.learned_below = learned_below
        self._num_examples = num_examples
        self._ranks = ranks
        self._columns = History.empty(num_examples)
        self._waiting: list[_Visits] = []
        self._num_waiting = 0

    def note(
        self,
        epoch: int,
        examples: Indices,
        losses: torch.Tensor,
        margins: torch.Tensor | None,
        doubtful: Callable[[], torch.Tensor] | None = None,
    ) -> None:
        """One batch more; `doubtful` gives the examples whose visits may be another's, should too many wait."""
        self._waiting.append(_Visits(epoch, examples, losses.clone(), margins))
        self._num_waiting += len(examples)
        if self._num_waiting > 2 * self._num_examples and not self._ranks.is_connected:
            self.settle(None if doubtful is None else doubtful())

    def columns(self, *, is_sure: bool = True) -> History:
        """What is known; what waits is left out unless it is sure to be right.

        With several processes: as the last `set_epoch` or `state_dict` left it.
        """
        if is_sure and not self._ranks.is_connected:
            self.settle()
        return self._columns

    def settle(self, doubtful: torch.Tensor | None = None) -> None:
        """Write down what waits, on all processes, but not what may belong to other examples."""
        rows, values = self._ranks.gathered(*self._taken())
        # Step by step, and in a step the slices in the order of the ranks.
        order = rows[:, 0].argsort(stable=True) if self._ranks.is_connected else torch.arange(len(rows))
        if doubtful is not None and len(doubtful):
            order = order[~torch.isin(rows[order, 2], doubtful)]
        _, epochs, where = rows[order].T
        losses, margins = values[order].T
        for turn in _turns(where):
            self._columns.add(epochs[turn], where[turn], losses[turn], margins[turn], self.learned_below)

    def _taken(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What waits here, which then waits no longer: rows (step, epoch, example), and with them (loss, margin)."""
        waiting, self._waiting, self._num_waiting = self._waiting, [], 0
        if not waiting:
            return torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 2, dtype=torch.float64)
        sizes = [len(visits.examples) for visits in waiting]
        steps, epochs = np.repeat([range(len(waiting)), [visits.epoch for visits in waiting]], sizes, axis=1)
        rows = np.stack([steps, epochs, np.concatenate([visits.examples for visits in waiting])], 1)
        losses = torch.cat([visits.losses.cpu().double() for visits in waiting])
        margins = torch.full_like(losses, math.nan)
        for part, visits in zip(margins.split(sizes), waiting, strict=True):
            if visits.margins is not None:
                part.copy_(visits.margins)
        return torch.from_numpy(rows), torch.stack([losses, margins], 1)

    def state(self, *, is_sure: bool = True) -> dict[str, Any]:
        """The columns and the bound, on all processes; what waits is left out unless it is sure to be right."""
        if is_sure:
            self.settle()
        return {"learned_below": self.learned_below, **vars(self._columns)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], num_examples: int, ranks: Ranks) -> Self:
        """What `state` gave."""
        history = cls(num_examples, ranks, state["learned_below"])
        for each in fields(History):
            column = state[each.name]
            if column.shape != (num_examples,):
                raise ValueError(
                    f"state must hold {each.name} of {num_examples} numbers, got shape {tuple(column.shape)}"
                )
            setattr(history._columns, each.name, column.clone())
        return history


def _turns(examples: torch.Tensor) -> Iterator[torch.Tensor]:
    """Where the first visits of all these examples are, then the second ones, and so on: most often all are first."""
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
