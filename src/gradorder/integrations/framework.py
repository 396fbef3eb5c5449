"""What every plug-in needs: a version that works, a sampler that only the training loop plans, and metrics."""

import re
from collections.abc import Iterator
from importlib import metadata
from typing import final

from torch.utils.data import DistributedSampler

from gradorder.errors import RankError
from gradorder.ranks import Ranks
from gradorder.sampler import OrderedSampler


def check_version(package: str, oldest: str) -> None:
    """Refuse an installed version that is too old; if the package is not installed, its import will say so.

    Raises:
        ImportError: names the oldest version that works and the installed one.
    """
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        return
    if _major_and_minor(installed) < _major_and_minor(oldest):
        raise ImportError(
            f"gradorder.integrations.{package} needs {package} {oldest} or newer, and {installed} is installed: "
            f'pip install "gradorder[{package}]"'
        )


def _major_and_minor(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


def epoch_metrics(sampler: OrderedSampler) -> dict[str, float]:
    """Return the fractions of the examples that the current epoch visits and skips, for the framework's logs."""
    summary = sampler.summary()
    kept = summary.visited[sampler.epoch] / summary.num_examples
    return {"gradorder/kept": kept, "gradorder/skipped": 1 - kept}


@final
class PlannedSampler(DistributedSampler[int]):
    """Hands out the epoch that an `OrderedSampler` has planned; `set_epoch` does nothing.

    Accelerate and Fabric count epochs themselves, from 0 after every resume. Only the training loop plans an epoch.
    """

    def __init__(self, ordered: OrderedSampler) -> None:
        super().__init__(ordered.dataset, ordered.num_replicas, ordered.rank, shuffle=False)
        self.ordered = ordered

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: the framework's count is not the run's."""

    def __iter__(self) -> Iterator[int]:
        return iter(self.ordered)

    def __len__(self) -> int:
        return len(self.ordered)


def check_same_dataset(sampler: OrderedSampler, advice: str) -> None:
    """Compare the length of the dataset on all ranks; call it on all of them.

    Raises:
        RankError: names the length on every rank, followed by the advice.
    """
    ranks = Ranks.numbered(sampler.num_replicas, sampler.rank)
    if not ranks.is_connected:
        return
    try:
        ranks.agree("the training dataset", num_examples=sampler.num_examples)
    except RankError as error:
        raise RankError(f"{error}. {advice}") from None
