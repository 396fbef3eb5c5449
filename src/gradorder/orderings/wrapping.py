"""What the orderings have in common that change the order of another one."""

from dataclasses import dataclass
from typing import Self

from gradorder.orderings.ordering import Order, Ordering, Request
from gradorder.orderings.shuffled import Shuffled
from gradorder.orderings.sorted import Descending


@dataclass(frozen=True)
class Wrapping(Ordering):
    """An ordering around an inner one: it passes a changed request on, and changes the order that comes back.

    Args:
        inner: the ordering inside.
    """

    inner: Ordering

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Ordering):
            raise TypeError(f"inner must be an ordering such as Shuffled(), got {self.inner!r}")
        self.inner.inside(self)

    @property
    def needs_scores(self) -> bool:
        """As the inner ordering."""
        return self.inner.needs_scores

    def source_epoch(self, epoch: int) -> int:
        """As the inner ordering."""
        return self.inner.source_epoch(epoch)

    def num_kept(self, request: Request) -> int | None:
        """As the inner ordering."""
        return self.inner.num_kept(request)

    def order_without_scores(self, request: Request) -> Order:
        """As the inner ordering."""
        return self.inner.order_without_scores(request)

    def inside(self, wrapper: Ordering) -> None:
        """As the inner ordering."""
        self.inner.inside(wrapper)

    @classmethod
    def typical(cls) -> tuple[Self, ...]:
        """Around an order by scores, and around a random one where that is allowed."""
        around_scores = cls(Descending())
        try:
            return (around_scores, cls(Shuffled()))
        except ValueError:
            return (around_scores,)
