"""Methods of other packages, decided by their own code; each is installed by `pip install 'gradorder-lab[peers]'`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import torch

from gradorder.orderings import Order, Ordering, OrderingRun, Request
from gradorder_lab.errors import LabError

RCAP_KEPT = 0.5
"""Of every epoch but the first. At a half it is all one whether `pruning_rate` is what is removed or what is left."""

_RCAP_BETA = 2.0  # the temperature in datacull's own example


@final
@dataclass(frozen=True, eq=False)
class Rcap(Ordering):
    """RCAP by `datacull`: its importance of the last losses, and its draw of a part of every class.

    Losses come from memory, where datacull itself writes and reads a file with a line per example. The first epoch is
    complete, as the sampler's always is. The peer remembers what it drew: a rule for one run, epoch after epoch.
    """

    needs_scores: ClassVar[bool] = True
    labels: torch.Tensor
    _peer: "_Datacull" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_peer", _Datacull(self.labels))

    def order(self, request: Request) -> Order:
        """What datacull draws, shuffled by it."""
        losses = request.required_scores.tolist()
        with _numpy_seeded(request.generator):
            return Order(torch.tensor(self._peer.drawn(losses), dtype=torch.int64))

    def start(self, request: Request) -> OrderingRun:
        """Start a run; each class is rounded up, so the length of an epoch is known only when it is drawn."""
        del request
        return OrderingRun(self, prunes=True)


class _Datacull:
    """Its loader and its importance of examples, which is fed with losses instead of files of them."""

    def __init__(self, labels: torch.Tensor) -> None:
        try:
            from datacull import DCDataset, DCLogger  # noqa: PLC0415 - the peer is not everybody's
            from datacull.methods.RCAP import RCAPDataLoader, RCAPImportance  # noqa: PLC0415
        except ImportError as error:
            raise LabError(
                f"datacull RCAP needs the package datacull, which is not installed: {error}; "
                "pip install 'gradorder-lab[peers]'"
            ) from error
        dataset = DCDataset(_Targets(labels))
        self._loader = RCAPDataLoader(dataset, RCAP_KEPT)
        self._importance = RCAPImportance(dataset, DCLogger("."), _RCAP_BETA)
        self._importance.epoch = 0  # the first, complete epoch has been
        self._importance.extract_trajectory_segment = lambda _epoch: [self._losses]

    def drawn(self, losses: Sequence[float]) -> list[int]:
        """The examples of the next epoch."""
        self._losses = losses
        self._loader.resample(self._importance.compute_importance())
        found: list[int] = self._loader.subset_indices
        return found


class _Targets:
    """All that datacull asks of a data set before an epoch: how many examples of which class, from 0 on."""

    def __init__(self, labels: torch.Tensor) -> None:
        self.targets = np.unique(labels.numpy(), return_inverse=True)[1]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return (self.targets[index],)


@contextmanager
def _numpy_seeded(generator: torch.Generator) -> Iterator[None]:
    """The peer draws from numpy's global state: that is seeded for it, and left as found."""
    before = np.random.get_state()  # noqa: NPY002 - the peer's habit
    np.random.seed(int(torch.randint(2**32, (), generator=generator)))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
