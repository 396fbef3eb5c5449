"""What networks train on: anything that gives labelled examples by their positions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

LabelledBatch = tuple[torch.Tensor, torch.Tensor]
"""Inputs (B, ...) and labels (B,)."""

Augment = Callable[[torch.Tensor], torch.Tensor]
"""Of the inputs of a batch, before they are normalised."""


class Examples(Protocol):
    """Inputs and labels; `gradorder_lab.data.ImageDataset` is one."""

    @property
    def labels(self) -> torch.Tensor:
        """int64 (N,)."""

    def __len__(self) -> int: ...

    def batch(self, indices: torch.Tensor | Sequence[int], augment: Augment | None = None) -> LabelledBatch:
        """Inputs (B, ...) and labels (B,) of these examples."""


@dataclass(frozen=True, eq=False)
class LabelledTensors:
    """Examples that are two tensors in memory."""

    inputs: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: torch.Tensor | Sequence[int], augment: Augment | None = None) -> LabelledBatch:
        """One indexing operation for each tensor."""
        positions = torch.as_tensor(indices, device=self.inputs.device)
        inputs = self.inputs.index_select(0, positions)
        return inputs if augment is None else augment(inputs), self.labels.index_select(0, positions)


@dataclass(frozen=True, eq=False)
class PretrainedFeatures(LabelledTensors):
    """The outputs of frozen layers, and the pretrained weights of the layers that are trained on them, by name."""

    pretrained: Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Subset:
    """Some of the examples, with labels of its own: a held-out part, wrong labels, rare classes."""

    whole: Examples
    positions: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, whole: Examples) -> "Subset":
        """All of them, with their own labels."""
        return cls(whole, torch.arange(len(whole), device=whole.labels.device), whole.labels)

    def __len__(self) -> int:
        return len(self.positions)

    def batch(self, indices: torch.Tensor | Sequence[int], augment: Augment | None = None) -> LabelledBatch:
        """Those of the whole, with this part's labels."""
        chosen = torch.as_tensor(indices, device=self.labels.device)
        inputs, _ = self.whole.batch(self.positions.index_select(0, chosen), augment)
        return inputs, self.labels.index_select(0, chosen)

    def without(self, held_out: int) -> tuple["Subset", "Subset"]:
        """All but `held_out` random examples, and those."""
        kept, held = without_some(len(self), held_out)
        return self._only(kept), self._only(held)

    def with_wrong_labels(self, share: float, num_classes: int, generator: torch.Generator) -> "Subset":
        """A random share of the labels replaced by another class, each of the others as likely."""
        is_wrong = torch.rand(len(self), generator=generator) < share
        shift = torch.randint(1, num_classes, (len(self),), generator=generator)
        labels = torch.where(is_wrong, (self.labels + shift) % num_classes, self.labels)
        return replace(self, labels=labels)

    def with_rare_classes(self, ratio: float, num_classes: int, generator: torch.Generator) -> "Subset":
        """Class c thinned out to the share ratio^(c / (C - 1)): the last has `ratio` of its examples left."""
        share = ratio ** (self.labels.double() / (num_classes - 1))
        kept = torch.rand(len(self), generator=generator, dtype=torch.float64) < share
        return self._only(kept.nonzero().flatten())

    def _only(self, chosen: torch.Tensor) -> "Subset":
        return replace(self, positions=self.positions[chosen], labels=self.labels[chosen])


def without_some(num_examples: int, held_out: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All positions but `held_out` random ones, and those, ascending: the same in every run."""
    order = torch.randperm(num_examples, generator=torch.Generator().manual_seed(0))
    return order[held_out:].sort().values, order[:held_out].sort().values


def random_split(examples: LabelledTensors, test_share: float) -> tuple[LabelledTensors, LabelledTensors]:
    """Return all examples but a random share, and that share: the same in every run."""
    kept, held_out = without_some(len(examples), round(test_share * len(examples)))
    return LabelledTensors(*examples.batch(kept)), LabelledTensors(*examples.batch(held_out))
