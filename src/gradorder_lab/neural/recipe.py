"""What a network is trained on, how, and by which of the four methods."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, final

from gradorder.ranks import world_size
from gradorder_lab.neural import training
from gradorder_lab.recipe import Recipe, Rows
from gradorder_lab.workspace import Workspace

START_PARTS = (0.4, 0.5, 0.7)
"""Where ordering starts, as parts of the run: the paper's 80, 100 and 140 of 200 epochs."""

Method = Literal["full random", "full ordered", "mini random", "mini ordered"]
Sort = Literal["none", "within", "first", "first dealt"]
Score = Literal["gradient norm", "last-layer bound", "logit error", "loss"]


def start_epoch_at(part: float, epochs: int) -> int:
    """The epoch at this part of the run."""
    return round(part * epochs)


@final
@dataclass(frozen=True, kw_only=True)
class NeuralRecipe(Recipe):
    """One method on one data set with one network.

    Args:
        experiment: the experiment that it belongs to.
        data: name of the data set.
        size: which version of it is read.
        num_train: class-balanced subset of the training set; all of it for None.
        model: a key of `training.MODELS`.
        width: channels of the first stage of a residual network; its own default for None.
        method: on all data or the kept part, ordered or random.
        sort: Algorithm 4 sorts within each batch, Algorithm 3 sorts first: contiguous or dealt over the batches.
        score: what the order is by.
        batch_size: S.
        keep: q / S of the mini methods.
        epochs: how many.
        start_epoch: random and complete before it, for every method.
        schedule: one of `step_sizes.NAMES`.
        step_size: the first one.
        momentum: of SGD.
        weight_decay: of SGD.
        augment: random crops and flips.
        evaluate_every: epochs between the rows; the last epoch always has one.
    """

    revision: ClassVar[int] = 2

    data: str
    size: Literal["mini", "cpu", "paper"] = "paper"
    num_train: int | None = None
    model: str
    width: int | None = None
    method: Method = "full random"
    sort: Sort = "none"
    score: Score = "gradient norm"
    batch_size: int = 128
    keep: float = 0.5
    epochs: int = 10
    start_epoch: int = 0
    schedule: str = "1/(1+t/n)"
    step_size: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    augment: bool = False
    evaluate_every: int = 1

    @property
    def family(self) -> str:
        """Its own: what it shares, it shares through checkpoints."""
        return json.dumps(dict(self.settings), sort_keys=True)

    @property
    def stage(self) -> int:
        """Random runs first: the others branch off from them."""
        return 0 if self.method == "full random" else 1

    @property
    def is_data_parallel(self) -> bool:
        """Every run."""
        return True

    @property
    def branch_epochs(self) -> tuple[int, ...]:
        """Where other runs branch off from a random one."""
        return tuple(start_epoch_at(part, self.epochs) for part in START_PARTS)

    @property
    def warm_up(self) -> "NeuralRecipe":
        """The random run that it branches from."""
        return replace(
            self, method="full random", sort="none", score="gradient norm", keep=1.0, start_epoch=0, experiment=""
        )

    def run(self, seed: int, workspace: Workspace | None = None) -> Rows:
        """Train from the last checkpoint on; the random epochs come from those that the family has trained before."""
        return training.run(self, seed, workspace or Workspace())

    def checkpoint(self, seed: int, workspace: Workspace, epoch: int | None = None) -> Path:
        """Where its last state is kept, or, as a branch point for others, that after `epoch` epochs."""
        settings = vars(self.warm_up if self.method == "full random" else self)
        where = (workspace.device, workspace.threads, *([world_size()] if world_size() > 1 else []))
        identity = json.dumps([self.revision, seed, *where, settings], sort_keys=True)
        name = hashlib.sha256(identity.encode()).hexdigest()[:24]
        directory = workspace.checkpoints or Path()
        return directory / (f"{name}.pt" if epoch is None else f"{name}-{epoch}.pt")
