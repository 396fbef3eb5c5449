"""A sampler as frameworks may have it: they count epochs by themselves, and start from 0 after a resume."""

from collections.abc import Iterator
from typing import final

from torch.utils.data import DistributedSampler

from gradorder.sampler import OrderedSampler


@final
class PlannedSampler(DistributedSampler[int]):
    """Hands out what an `OrderedSampler` has planned; only the training loop plans, `set_epoch` here does nothing."""

    def __init__(self, ordered: OrderedSampler) -> None:
        super().__init__(ordered.dataset, ordered.num_replicas, ordered.rank, shuffle=False)
        self.ordered = ordered

    def set_epoch(self, epoch: int) -> None:
        """Nothing: the framework's count is not the run's."""

    def __iter__(self) -> Iterator[int]:
        return iter(self.ordered)

    def __len__(self) -> int:
        return len(self.ordered)
