"""What the orderings have in common that change the order of another one."""

from dataclasses import dataclass

import torch

from gradorder.orderings.ordering import Ordering


@dataclass(frozen=True)
class Wrapping(Ordering):
    """An ordering around an inner one, and like it unless a subclass says otherwise; the order is the subclass's.

    Args:
        inner: the ordering inside; it names every example once and holds no state.
    """

    inner: Ordering

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Ordering):
            raise TypeError(f"inner must be an ordering such as Shuffled(), got {self.inner!r}")
        if self.inner.learns:
            raise ValueError(f"inner must not learn its order, got {self.inner}")
        if self.inner.with_replacement:
            raise ValueError(f"inner must visit every example once, got {self.inner} with replacement")

    @property
    def needs_scores(self) -> bool:
        """As the inner ordering."""
        return self.inner.needs_scores

    @property
    def is_weighted(self) -> bool:
        """As the inner ordering."""
        return self.inner.is_weighted

    @property
    def prunes(self) -> bool:
        """As the inner ordering."""
        return self.inner.prunes

    @property
    def least_keep(self) -> float:
        """As the inner ordering."""
        return self.inner.least_keep

    def noise_epoch(self, epoch: int) -> int:
        """As the inner ordering."""
        return self.inner.noise_epoch(epoch)

    def scores_epoch(self, epoch: int) -> int:
        """As the inner ordering."""
        return self.inner.scores_epoch(epoch)

    def _order(self, scores: torch.Tensor, num_examples: int, epoch: int, generator: torch.Generator) -> torch.Tensor:
        return self._order_in_classes(scores, num_examples, epoch, generator, None)

    def _inner_order(
        self,
        scores: torch.Tensor,
        num_examples: int,
        epoch: int,
        generator: torch.Generator,
        classes: torch.Tensor | None,
    ) -> torch.Tensor:
        given = scores if self.needs_scores else None
        return self.inner(given, epoch=epoch, generator=generator, num_examples=num_examples, classes=classes)
