"""Revisiting: whatever an ordering prefers, every example comes back after a fixed number of epochs."""

from dataclasses import dataclass, replace
from typing import final

import torch

from gradorder import checks
from gradorder.orderings.ordering import Made
from gradorder.orderings.wrapping import Wrapping


@final
@dataclass(frozen=True)
class Revisiting(Wrapping):
    """The inner order, with one of `every` fixed parts of the examples moved to the front, another each epoch.

    Rule: with F_r = {i : place(i) mod every = r}, epoch e plays F_{e mod every} in the inner order, then the others
    in the inner order. `place` is a fixed random permutation of the examples, with labels sorted by class, so that a
    part holds 1/every of each class, rounded up or down.

    So with any keep >= 1/every, labels or not, each example is visited at least once in any `every` consecutive
    ordered epochs, and no remembered score gets older than that. A smaller keep is refused. `drop_last` may cut the
    visit off. Inside FlipFlop, `every` must be odd, and the promise is for 2 * every epochs, as pairs share a part.

    Weights of the inner ordering stay unbiased: what is at the front is sure to be kept and weighs kept / N, and the
    inner ordering weighs what was chosen among the rest. Where nothing was, no weight could be right, so it is refused:
    then each class (all examples, without labels) must keep more than ceil(n_c / every), or all.

    It helps where scores are remembered from training: what is never visited would keep its old score for ever.

    Cost: one more permutation of N per epoch, with labels one more sort.

    Reference: none known to us; it is this library's own.

    Args:
        inner: the ordering of the examples in both parts.
        every: the number of parts, at least 2.
    """

    every: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner.prunes:
            raise ValueError(f"inner must not leave examples out, got {self.inner}")
        if self.inner.least_keep > 0:
            raise ValueError(f"inner must not put examples in front by itself, got {self.inner}")
        if self.inner.reverses(0) or self.inner.reverses(1):
            raise ValueError(f"inner must not play epochs backwards, got {self.inner}: use FlipFlop(Revisiting(...))")
        checks.integer("every", self.every, minimum=2)

    @property
    def least_keep(self) -> float:
        """One part."""
        return 1 / self.every

    def _order_in_classes(
        self,
        scores: torch.Tensor,
        num_examples: int,
        epoch: int,
        generator: torch.Generator,
        classes: torch.Tensor | None,
    ) -> torch.Tensor:
        order = self._inner_order(scores, num_examples, epoch, generator, classes)
        is_forced = self._forced(num_examples, epoch, classes).to(order.device)[order]
        return torch.cat([order[is_forced], order[~is_forced]])

    def _forced(self, num_examples: int, epoch: int, classes: torch.Tensor | None) -> torch.Tensor:
        """Which examples this epoch must visit."""
        # Always the same permutation: which examples are together has nothing to do with a run's seed.
        by_place = torch.randperm(num_examples, generator=torch.Generator().manual_seed(num_examples))
        if classes is not None:
            small = classes if classes.dtype == torch.uint8 else classes.long()  # sorts bytes eight times as fast
            by_place = by_place[torch.argsort(small[by_place], stable=True)]
        forced = torch.zeros(num_examples, dtype=torch.bool)
        forced[by_place[epoch % self.every :: self.every]] = True
        return forced

    def weights(self, kept: torch.Tensor, made: Made) -> torch.Tensor | None:
        """Kept / N for the forced examples, the inner ordering's among the rest for the others."""
        if not self.is_weighted:
            return None
        num_examples = made.num_examples
        self._check_chances(kept, num_examples, made.classes)
        forced = self._forced(num_examples, made.epoch, made.classes)
        chosen = ~forced[kept]
        # No candidates are given here: nothing forces examples around this.
        inner = self.inner.weights(kept[chosen], replace(made, candidates=~forced))
        weights = torch.full((len(kept),), len(kept) / num_examples, dtype=torch.float64)
        if inner is not None and len(inner):
            # The inner mean over the chosen stands for all that were not forced.
            weights[chosen] *= inner * (num_examples - int(forced.sum())) / len(inner)
        return weights

    def _check_chances(self, kept: torch.Tensor, num_examples: int, classes: torch.Tensor | None) -> None:
        """Every example must have a chance, in any epoch: the check does not depend on whose turn it is."""
        group = torch.zeros(num_examples, dtype=torch.int64) if classes is None else classes.long()
        counts = torch.bincount(group)
        num_kept = torch.bincount(group[kept], minlength=len(counts))
        hopeless = ((num_kept < counts) & (num_kept <= -(-counts // self.every))).nonzero().flatten()
        if len(hopeless):
            which = int(hopeless[0])
            raise ValueError(
                f"keep must leave room beside the examples that {self} forces, to weight the others without bias: "
                f"{'all' if classes is None else f'class number {which}'} with {int(counts[which])} examples keeps "
                f"{int(num_kept[which])}, and up to {-(-int(counts[which]) // self.every)} are forced"
            )
