"""How one network is trained: data, network, method, optimizer, learning rate.

The paper, the benchmark and `compare` all train by this recipe. Their own recipes (`paper/network.py`,
`benchmark/recipe.py`) give it the names under which rows are kept.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from gradorder.losses import Losses
from gradorder_lab.data.augmentation import epoch_moves, random_crop_and_flip
from gradorder_lab.data.examples import Augment
from gradorder_lab.errors import LabError
from gradorder_lab.models.mixed_precision import MixedPrecision
from gradorder_lab.models.named import MODELS, started
from gradorder_lab.runs.recipe import Workspace
from gradorder_lab.training import own
from gradorder_lab.training.method import Circumstances, Method, Strategy
from gradorder_lab.training.network import NetworkRun
from gradorder_lab.training.split import DataSettings, Split, load_split
from gradorder_lab.training.step_sizes import StepSize, step_size_by_progress, step_size_named

OptimizerName = Literal["SGD", "AdamW"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """The one network recipe.

    Args:
        data: what is trained and measured on.
        model: a key of `MODELS`, or "module:function", a function (classes, inputs) -> module, `inputs` the shape of
            one example.
        method: which examples, in what order.
        epochs: of plain training.
        length: epochs of this run, whole or not.
        batch_size: of one training step.
        schedule: of the learning rate, as `step_size_named` knows it.
        step_size: the first learning rate.
        width: of the network; its own default for None.
        budget: share of plain training's cost that the method may spend.
        optimizer: "SGD" or "AdamW".
        momentum: of SGD.
        weight_decay: of either.
        crop: training images are mirrored half of the time and shifted by up to this many pixels; None: neither.
        losses: "module:function", a function (model, batch) -> (B,); cross-entropy for None.
        mixed_precision: whether the network runs under autocast in bfloat16; on a CPU it never does.
        measured: name in the rows -> the part of the split.
    """

    data: DataSettings
    model: str
    method: Method
    epochs: int
    length: float
    batch_size: int
    schedule: str
    step_size: float
    width: int | None = None
    budget: float = 1.0
    optimizer: OptimizerName = "SGD"
    momentum: float = 0.0
    weight_decay: float = 0.0
    crop: int | None = None
    losses: str | None = None
    mixed_precision: bool = False
    measured: Mapping[str, Literal["train", "held_out", "test"]] = field(default_factory=lambda: {"test": "test"})

    @property
    def own_losses(self) -> Losses | None:
        """The user's function, None for cross-entropy."""
        found: Losses | None = None if self.losses is None else own.imported(own.unmarked(self.losses), "--losses")
        return found

    def split(self, directory: Path | None, *, seed: int = 0, device: str = "cpu") -> Split:
        """The data of this seed."""
        return load_split(self.data, directory, seed=seed, device=device)

    def network(self, split: Split, seed: int) -> nn.Module:
        """The network with the start of this seed, the same for every method."""
        build, given = _builder(self.model, self.width), (split.num_classes, split.input_shape)
        model = started(lambda: build(*given), seed)
        if not split.pretrained:
            return model
        if unknown := split.pretrained.keys() - model.state_dict().keys():
            raise LabError(
                f"--model must be the network whose pretrained weights come with {self.data.name}, got {self.model!r} "
                f"without {min(unknown)}"
            )
        model.load_state_dict(split.pretrained, strict=False)  # the head keeps the start of this seed
        return model

    def start(self, seed: int, workspace: Workspace | None = None) -> NetworkRun:
        """The run before its first step."""
        workspace = workspace or Workspace()
        split = self.split(workspace.data, seed=seed, device=workspace.device)
        return self.start_on(split, seed, workspace.device)

    def start_on(self, split: Split, seed: int, device_name: str = "cpu") -> NetworkRun:
        """The run before its first step, on these data."""
        device = torch.device(device_name)
        losses = self.own_losses
        given = Circumstances(split.train.labels, self.batch_size, self.epochs, self.budget, seed, losses)
        model = self.network(split, seed).to(device)
        if self.mixed_precision and device.type != "cpu":
            model = MixedPrecision(model)
        strategy = self.method.build(given)
        return NetworkRun(
            model,
            self._optimizer(model),
            strategy,
            self._step_size(strategy, len(split.train)),
            split.train,
            {name: getattr(split, part) for name, part in self.measured.items()},
            device,
            None if self.crop is None else partial(_crops_and_flips, seed, self.crop, device),
            losses,
        )

    def _step_size(self, strategy: Strategy, num_examples: int) -> StepSize:
        if strategy.runs_by_progress:
            return step_size_by_progress(self.schedule, self.step_size, strategy.sampler)
        steps_per_epoch = math.ceil(num_examples / self.batch_size)
        return step_size_named(self.schedule, self.step_size, steps_per_epoch=steps_per_epoch, epochs=self.length)

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        if self.optimizer == "AdamW":
            return torch.optim.AdamW(model.parameters(), lr=self.step_size, weight_decay=self.weight_decay)
        return torch.optim.SGD(
            model.parameters(), lr=self.step_size, momentum=self.momentum, weight_decay=self.weight_decay
        )


def _crops_and_flips(seed: int, padding: int, device: torch.device, epoch: int) -> Augment:
    """Random crops and flips from this epoch's own random numbers."""
    return partial(random_crop_and_flip, generator=epoch_moves(seed, epoch, device), padding=padding)


def _builder(name: str, width: int | None) -> Callable[[int, tuple[int, ...]], nn.Module]:
    if name in MODELS:
        # Convolutions are faster with the channels last; a layout changes rounding, never what is computed.
        return lambda classes, shape: MODELS[name](classes, shape, width).to(
            memory_format=torch.channels_last  # type: ignore[call-overload]
        )
    if ":" not in name:
        raise LabError(
            f"--model must be one of {', '.join(MODELS)}, or module:function with a function (classes, inputs) -> "
            f"module, got {name!r}"
        )
    builder: Callable[[int, tuple[int, ...]], nn.Module] = own.imported(own.unmarked(name), "--model")
    return builder
