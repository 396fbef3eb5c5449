"""Prompts for reinforcement learning: which of them a trainer generates completions for.

A trainer such as TRL's generates a group of completions for each prompt of a generation batch and reuses them for
several training steps. The sampler hands out the prompts of an epoch in that pattern. An ordering decides which prompts
an epoch has, by the spread of the rewards in the last group of each prompt.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, final

import torch
from torch.utils.data import Sampler

from gradorder import checks
from gradorder.orderings import Ordering, Request
from gradorder.orderings.ordering import OrderingRun, epoch_generator

VERSION = 1
_PER_PROMPT = {"pass_rates": torch.float32, "spreads": torch.float32, "num_groups": torch.int64}


@final
class PromptSampler(Sampler[int]):
    """Hands out the prompts of an epoch, each as often as a trainer generates and reuses its completions.

    An epoch has `num_prompts // prompts_per_batch` generation batches, whatever the ordering skips. It is planned once,
    before its first batch, from the rewards of all earlier epochs. So it does not depend on how many batches a loader
    prefetches, and a resumed run continues with the same prompts.

    Args:
        num_prompts: the number of prompts in the dataset.
        prompts_per_batch: the number of prompts in a generation batch, over all processes.
        num_generations: the number of completions of each prompt, its group.
        num_repeats: how many times each generation batch is handed out in a row.
        ordering: the rule. Its scores are `spreads`. An order that is shorter than the epoch starts over.
        seed: of the run. `go.Shuffled()` has the order of TRL's own sampler in epoch 0.

    Raises:
        ValueError: there are fewer prompts than one generation batch needs, or the ordering cannot serve prompts.
    """

    def __init__(
        self,
        num_prompts: int,
        *,
        prompts_per_batch: int,
        num_generations: int,
        num_repeats: int = 1,
        ordering: Ordering,
        seed: int = 0,
    ) -> None:
        self.num_prompts = checks.integer("num_prompts", num_prompts, minimum=1)
        self.prompts_per_batch = checks.integer("prompts_per_batch", prompts_per_batch, minimum=1)
        self.num_generations = checks.integer("num_generations", num_generations, minimum=2)
        self.num_repeats = checks.integer("num_repeats", num_repeats, minimum=1)
        self.seed = checks.integer("seed", seed, minimum=0)
        self.ordering = _checked_ordering(ordering)
        if num_prompts < prompts_per_batch:
            raise ValueError(
                f"num_prompts must be at least prompts_per_batch={prompts_per_batch}, got {num_prompts}: an epoch "
                "would have no generation batch"
            )
        self._pass_rates = torch.full((num_prompts,), math.nan)
        self._spreads = torch.full((num_prompts,), math.nan)
        self._num_groups = torch.zeros(num_prompts, dtype=torch.int64)
        self.epoch = 0
        self._order = self._planned(0)

    @property
    def pass_rates(self) -> torch.Tensor:
        """The mean reward of each prompt's last group, shape (num_prompts,); NaN for prompts without one.

        With rewards of 0 and 1 this is the share of completions that passed.
        """
        return self._pass_rates.clone()

    @property
    def spreads(self) -> torch.Tensor:
        """The largest minus the smallest reward of each prompt's last group, shape (num_prompts,); NaN without one.

        Completions without a reward do not count. A group in which none has a reward has spread 0.
        """
        return self._spreads.clone()

    @property
    def num_groups(self) -> torch.Tensor:
        """How many groups were generated for each prompt so far, shape (num_prompts,)."""
        return self._num_groups.clone()

    @property
    def order(self) -> torch.Tensor:
        """The prompts of the current epoch, in order: generation batch after generation batch."""
        return self._order.clone()

    def plan(self, epoch: int) -> None:
        """Decide which prompts this epoch has; does nothing if it is planned already, as after a resume."""
        checks.integer("epoch", epoch, minimum=0)
        if epoch != self.epoch:
            self._order = self._planned(epoch)
            self.epoch = epoch

    def _planned(self, epoch: int) -> torch.Tensor:
        size = self.num_batches * self.prompts_per_batch
        # TRL's own sampler seeds with the seed itself, so epoch 0 can be compared with it index by index.
        generator = epoch_generator(self.seed, epoch) if epoch else torch.Generator().manual_seed(self.seed)
        needs_scores = self.ordering.needs_scores
        request = Request(
            epoch,
            self.num_prompts,
            generator,
            scores=self._spreads.nan_to_num(0) if needs_scores else None,
            known=self._num_groups > 0 if needs_scores else None,
            keep=None if size == self.num_prompts else size / self.num_prompts,
            seed=self.seed,
        )
        order = self.ordering.start(request).order(request)
        if order.weights is not None:
            raise ValueError(f"ordering must not weight its examples, got {self.ordering}: a trainer ignores weights")
        indices = order.indices.flip(0) if order.backwards else order.indices
        return indices.cpu().repeat(math.ceil(size / len(indices)))[:size]

    @property
    def num_batches(self) -> int:
        """The number of generation batches in an epoch."""
        return self.num_prompts // self.prompts_per_batch

    def __len__(self) -> int:
        return len(self._order) * self.num_generations * self.num_repeats

    def __iter__(self) -> Iterator[int]:
        for batch in self._order.split(self.prompts_per_batch):
            group_by_group = batch.repeat_interleave(self.num_generations).tolist()
            for _ in range(self.num_repeats):
                yield from group_by_group

    def record(self, prompts: torch.Tensor, rewards: torch.Tensor) -> None:
        """Remember the rewards of one generation batch, over all processes.

        Args:
            prompts: the index of each completion's prompt, in the order of the sampler.
            rewards: one for each completion; NaN for a completion without a reward.

        Raises:
            ValueError: the completions are not whole groups in the order of the sampler, or a reward is infinite.
        """
        groups, grouped = self._grouped(prompts, rewards)
        has_reward = ~grouped.isnan()
        highest = grouped.nan_to_num(-math.inf).amax(1)
        lowest = grouped.nan_to_num(math.inf).amin(1)
        spreads = torch.where(has_reward.any(1), highest - lowest, 0)
        # One by one: a prompt may have two groups in a batch, and then the last one counts.
        for prompt, spread, mean in zip(groups.tolist(), spreads.tolist(), grouped.nanmean(1).tolist(), strict=True):
            self._spreads[prompt], self._pass_rates[prompt] = spread, mean
            self._num_groups[prompt] += 1

    def _grouped(self, prompts: torch.Tensor, rewards: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = self.prompts_per_batch * self.num_generations
        if tuple(prompts.shape) != (size,) or tuple(rewards.shape) != (size,):
            raise ValueError(
                f"prompts and rewards must have one entry for each of {size} completions, got shapes "
                f"{tuple(prompts.shape)} and {tuple(rewards.shape)}"
            )
        groups, grouped = prompts.cpu().view(-1, self.num_generations), rewards.detach().cpu().float()
        if (
            not bool((groups == groups[:, :1]).all())
            or not 0 <= int(groups.min()) <= int(groups.max()) < self.num_prompts
        ):
            raise ValueError(
                f"prompts must be groups of {self.num_generations} equal indices below {self.num_prompts}, in the "
                f"order of the sampler, got {prompts.tolist()}"
            )
        if bool(grouped.isinf().any()):
            infinite = prompts.cpu()[grouped.isinf()].unique().tolist()
            raise ValueError(f"rewards must be finite, or NaN for none, got an infinite reward for prompts {infinite}")
        return groups[:, 0], grouped.view(-1, self.num_generations)

    def state_dict(self) -> dict[str, Any]:
        """The planned epoch and what is remembered of every prompt, as plain tensors and numbers."""
        numbers = {"version": VERSION, **self._settings(), "epoch": self.epoch}
        return {**numbers, "order": self.order, **{name: getattr(self, name) for name in _PER_PROMPT}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken, with the same or another number of processes.

        Raises:
            ValueError: the state is not one, or it is of a sampler with other prompts, batches or another seed.
        """
        tensors = {"order": (torch.int64, (len(self._order),))}
        tensors |= {name: (dtype, (self.num_prompts,)) for name, dtype in _PER_PROMPT.items()}
        numbers = {"version": VERSION, **self._settings()}
        for name in [*numbers, "epoch", *tensors]:
            if name not in state:
                raise ValueError(f"state must be what state_dict() returned, but it has no {name!r}")
            if name in numbers and state[name] != numbers[name]:
                raise ValueError(f"state was made with {name}={state[name]}, but this sampler has {numbers[name]}")
        for name, (dtype, shape) in tensors.items():
            _check_tensor(name, state[name], dtype, shape)
        _check_values(state, self.num_prompts)
        self.epoch, self._order = checks.integer("state's epoch", state["epoch"], minimum=0), _copied(state["order"])
        self._pass_rates, self._spreads = _copied(state["pass_rates"]), _copied(state["spreads"])
        self._num_groups = _copied(state["num_groups"])

    def _settings(self) -> dict[str, int]:
        names = ("num_prompts", "prompts_per_batch", "num_generations", "num_repeats", "seed")
        return {name: getattr(self, name) for name in names}


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cpu", copy=True)


def _checked_ordering(ordering: Ordering) -> Ordering:
    """Refuse rules that need more than the scores of the last epoch: they would silently be something else."""
    if not isinstance(ordering, Ordering):
        raise TypeError(f"ordering must be an ordering such as go.Informative(), got {ordering!r}")
    if type(ordering.start(Request(0, 1, torch.Generator()))) is not OrderingRun:
        raise ValueError(f"ordering must not carry anything from epoch to epoch besides the scores, got {ordering}")
    return ordering


def _check_tensor(name: str, value: object, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if not isinstance(value, torch.Tensor) or value.dtype != dtype or tuple(value.shape) != shape:
        got = f"{tuple(value.shape)} of {value.dtype}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise ValueError(f"state must hold {name} as a tensor of shape {shape} and {dtype}, got {got}")


def _check_values(state: Mapping[str, Any], num_prompts: int) -> None:
    order, spreads, num_groups = state["order"], state["spreads"], state["num_groups"]
    if not 0 <= int(order.min()) <= int(order.max()) < num_prompts:
        raise ValueError(
            f"state must hold an order of prompts below {num_prompts}, got {int(order.min())} to {int(order.max())}"
        )
    if bool((num_groups < 0).any()) or not torch.equal(num_groups > 0, spreads >= 0) or bool(spreads.isinf().any()):
        raise ValueError("state must hold a finite spread >= 0 for each prompt with a group, and NaN for the others")
