"""The probe: a few batches of the user's own data, scored and trained on by a copy of the user's own model."""

import copy
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from gradorder import checks
from gradorder.adviser import spread
from gradorder.adviser.advice import EXACT, Advice, ScoreAdvice
from gradorder.adviser.spread import Array
from gradorder.batches import Batch, num_examples, to_device
from gradorder.losses import Losses, cross_entropy
from gradorder.norms.model_state import device_of, restored_random_state, unwrapped, with_whole_parameters
from gradorder.scores import GradientNorm, LastLayerBound, LogitError, Loss, Score

Clock = Callable[[], float]
"""The time in seconds."""

MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]

_NUM_ROUNDS = 24
"""At least so many times is everything timed, over all batches, and at least three times on each of them."""

_STEP = "step"

_Result = TypeVar("_Result")


def advise(
    model: nn.Module,
    dataset: Dataset[Any],
    *,
    losses: Losses | None = None,
    batch_size: int = 128,
    optimizer: MakeOptimizer | None = None,
    probe_batches: int = 8,
    collate_fn: Callable[[list[Any]], Batch] | None = None,
    seed: int = 0,
    clock: Clock | None = None,
) -> Advice:
    """Whether ordering or selection is expected to pay for this model and these data, from a short probe.

    Random examples of the dataset are scored at the current weights by every score that serves the model, and trained
    on by a copy of it, both timed in turn, round after round on the same batches. What is told is the median over the
    rounds, so that other work of the machine counts little. The rule behind the verdict:

    - A score's gain is mean(norm^2) / (mean(s) mean(norm^2 / s)) over the probed examples, with their exact gradient
      norms and s = score + mean(score) / 10: how many times lower the second moment of a gradient is that is drawn in
      proportion to s and weighted by 1 / (N p), compared with one drawn uniformly.
    - Its gain per time is gain / (1 + cost), the cost of scoring a batch as a part of the time to train on it.
      Losses remembered from training are counted as one more score, of cost zero.
    - Of the best gain per time: from 1.5 on "likely", below 1.1 "unlikely", between them "unclear".

    The numbers hold for the model as it is now: norms are nearly equal at the start of many trainings, so probe again
    after an epoch or two. What is not measured is not said: loading of data, wrong labels (whose norms are large),
    later epochs, and what the variance is worth in accuracy.

    The model is left exactly as found, the random state too. With several processes the probe is of the process that
    calls it: nothing is exchanged.

    Args:
        model: at the weights to be probed.
        dataset: anything with `__len__` and `__getitem__`.
        losses: a function `(model, batch) -> (B,)`; cross-entropy of `(inputs, targets)` if not given.
        batch_size: of the training steps.
        optimizer: makes the optimizer from a list of parameters, such as `torch.optim.AdamW`, for the timing of its
            step; SGD with momentum if not given.
        probe_batches: how many batches at most; a dataset smaller than one batch is probed whole.
        collate_fn: as in `DataLoader`.
        seed: of the choice of examples.
        clock: the time in seconds. If not given, the processor's for this thread where the model is on the CPU, as it
            stands still while the machine does other work; else that on the wall.

    Raises:
        IterableDatasetError: the dataset is iterable-style or has no length.
        NonFiniteScoresError: a loss or a norm is NaN or infinite.
        ValueError: the model has no per-example gradients (see `GradientNorm`), or nothing to train.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> dataset = TensorDataset(torch.randn(300, 4), torch.randint(3, (300,)))
        >>> advice = advise(nn.Linear(4, 3), dataset, batch_size=50)
        >>> advice.num_examples, advice.verdict in ("likely", "unclear", "unlikely")
        (300, True)
    """
    length = checks.map_style_length("dataset", dataset)
    size = min(checks.integer("batch_size", batch_size, minimum=1), length)
    checks.integer("probe_batches", probe_batches, minimum=1)
    checks.integer("seed", seed, minimum=0)
    if optimizer is not None and not callable(optimizer):
        raise ValueError(
            "optimizer must make an optimizer from a list of parameters, such as torch.optim.AdamW, got one of type "
            f"{type(optimizer).__name__}: the probe trains a copy of the model"
        )
    model = with_whole_parameters(unwrapped(model))
    stopwatch = _Stopwatch(clock or _clock_for(device_of(model)), device_of(model))
    with restored_random_state({device_of(model)}):
        probed = _probed(length, size, probe_batches, seed)
        num_rounds = max(3, math.ceil(_NUM_ROUNDS / len(probed)))
        batches = _batches(dataset, probed, collate_fn, device_of(model))
        first = next(batches)
        step = _training_step(model, losses or cross_entropy, optimizer)
        step(first)
        scores, refused = _serving(model, first, losses)
        values: dict[str, list[torch.Tensor]] = {name: [] for name in scores}
        times: dict[str, list[float]] = {name: [] for name in (_STEP, *scores)}
        for batch in _again(first, batches):
            actions: dict[str, Callable[[], Any]] = {_STEP: partial(step, batch)}
            actions |= {name: partial(score, model, batch) for name, score in scores.items()}
            for _ in range(num_rounds):
                found = {name: stopwatch.timed(action) for name, action in actions.items()}
                for name, (seconds, _) in found.items():
                    times[name].append(seconds)
            for name in scores:
                values[name].append(found[name][1])
    return _advice(values, times, refused, size)


def _advice(
    values: dict[str, list[torch.Tensor]], times: dict[str, list[float]], refused: tuple[str, ...], size: int
) -> Advice:
    arrays = {name: _joined(parts) for name, parts in values.items()}
    norms = arrays[EXACT]
    if not min(times[_STEP]) > 0:
        raise ValueError(f"clock must go on while a step is taken, got a step of {min(times[_STEP])} seconds")

    def cost(name: str) -> float:
        """Of scoring over that of the step in the same round: a machine that gets slower slows both."""
        return median(scoring / step for scoring, step in zip(times[name], times[_STEP], strict=True))

    def of(name: str, scores: Array, cost: float) -> ScoreAdvice:
        return ScoreAdvice(name, cost, spread.rank_correlation(scores, norms), spread.gain(norms, scores))

    measured = [of(name, scores, cost(name)) for name, scores in arrays.items()]
    return Advice(
        num_examples=len(norms),
        batch_size=size,
        step_seconds=median(times[_STEP]),
        variation=spread.variation(norms),
        harder_half_share=spread.harder_half_share(norms),
        effective_share=spread.effective_share(norms),
        scores=(of("remembered losses", arrays["Loss"], 0.0), *measured),
        refused=refused,
    )


def _joined(parts: list[torch.Tensor]) -> Array:
    array: Array = checks.finite_scores(torch.cat(parts)).double().cpu().numpy()
    return array


def _probed(length: int, size: int, num_batches: int, seed: int) -> list[list[int]]:
    """Random examples in batches of one size."""
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    num = min(num_batches, length // size)
    chosen: list[list[int]] = generator.choice(length, num * size, replace=False).reshape(num, size).tolist()
    return chosen


def _batches(
    dataset: Dataset[Any],
    indices: list[list[int]],
    collate_fn: Callable[[list[Any]], Batch] | None,
    device: torch.device,
) -> Iterator[Batch]:
    for batch in DataLoader(dataset, batch_sampler=indices, collate_fn=collate_fn):
        yield to_device(batch, device)


def _again(first: Batch, others: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    yield from others


def _training_step(model: nn.Module, losses: Losses, make: MakeOptimizer | None) -> Callable[[Batch], None]:
    """One step of a copy of the model, in training mode."""
    trained = copy.deepcopy(model)
    if not trained.training:
        trained.train()
    parameters = [parameter for parameter in trained.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("model must have a parameter to train, got none with requires_grad")
    optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9) if make is None else make(parameters)

    def step(batch: Batch) -> None:
        with torch.inference_mode(mode=False), torch.enable_grad():
            values = checks.per_example("losses", losses(trained, batch), num_examples(batch))
            optimizer.zero_grad()
            values.mean().backward()
            optimizer.step()

    return step


def _serving(model: nn.Module, batch: Batch, losses: Losses | None) -> tuple[dict[str, Score], tuple[str, ...]]:
    """The scores that serve this model and loss, each called once so that what is done once is not timed."""
    scores: dict[str, Score] = {EXACT: GradientNorm(losses), "Loss": Loss(losses)}
    for score in scores.values():
        score(model, batch)
    refused = []
    bound = LastLayerBound(losses)
    try:
        bound(model, batch)
    except ValueError:  # no last linear layer
        refused.append("LastLayerBound")
    else:
        scores["LastLayerBound"] = bound
    if losses is None or losses is cross_entropy:
        scores["LogitError"] = LogitError()
        scores["LogitError"](model, batch)
    else:
        refused.append("LogitError")
    return scores, tuple(refused)


def _clock_for(device: torch.device) -> Clock:
    """The processor's time of this thread, but where nobody counts it finely, or another device does the work."""
    is_counted = device.type == "cpu" and sys.platform != "win32"
    return time.thread_time if is_counted else time.perf_counter


class _Stopwatch:
    """Times what a device really does: it waits for it before and after."""

    def __init__(self, clock: Clock, device: torch.device) -> None:
        self._clock = clock
        self._device = device

    def timed(self, action: Callable[[], _Result]) -> tuple[float, _Result]:
        """The seconds that it took, and what it gave."""
        self._wait()
        start = self._clock()
        result = action()
        self._wait()
        return self._clock() - start, result

    def _wait(self) -> None:
        if self._device.type != "cpu":
            torch.get_device_module(self._device).synchronize(self._device)
