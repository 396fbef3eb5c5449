"""The sampler's loaders: one for training, which counts the batches that training receives, and one for evaluation."""

import sys
import sysconfig
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol, final

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from gradorder import checks
from gradorder.sampler.position import Pass

_ORDER = ("shuffle", "sampler", "batch_sampler", "drop_last")
_DECIDED_BY_SAMPLER = ("batch_size", *_ORDER)

_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
"""The folders of installed packages."""


class Counted(Protocol):
    """The part of a sampler that its loader uses."""

    num_examples: int

    @property
    def loader_batch_size(self) -> int:
        """Examples per batch of this rank's loader."""

    @property
    def latest_pass(self) -> Pass | None:
        """The last pass that began."""

    def receive(self, each: Pass) -> None:
        """Count a batch that training has received."""

    def seed_loader(self, generator: torch.Generator) -> None:
        """Seed the generator of a loader for the current epoch."""

    def warn_if_length_varies(self) -> None:
        """Warn if training has not begun and not all epochs have the length that the loader returns now."""


class SamplerLoader(DataLoader[Any]):
    """Tells its sampler which batches training has received; with workers, further ones are prefetched.

    Its seed for the workers comes from the sampler, so it draws nothing from the global generator. A training loop with
    dropout then sees the same random numbers before and after a resume.
    """

    counted: Counted | None = None
    """The sampler. A framework that builds the loader anew drops it, and then nothing is counted."""
    has_own_generator = False
    is_used = False
    """Whether someone has begun to iterate over it."""

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # torch names a class of its own
        self.is_used = True
        if self.counted is None:
            return super().__iter__()
        if self.has_own_generator:
            self.counted.seed_loader(self.generator)
        return _CountedBatches(self.counted, super().__iter__)

    def __len__(self) -> int:
        """The number of batches of the current epoch."""
        # A schedule is built before the loader is used. Later, len() is about one epoch: list(loader) asks for it, too.
        if self.counted is not None and not self.is_used and not _is_library(sys._getframe(1)):  # noqa: SLF001
            self.counted.warn_if_length_varies()
        return super().__len__()


@final
class _CountedBatches(Iterator[Any]):
    """The batches of one pass, counted as training receives them."""

    def __init__(self, counted: Counted, begin: Callable[[], Any]) -> None:
        self._counted = counted
        before = counted.latest_pass
        self._batches = begin()
        # With workers the pass begins here, without them with the first batch.
        self._pass = counted.latest_pass if counted.latest_pass is not before else None
        if self._pass is not None:
            self._pass.received = self._pass.start

    def __next__(self) -> Any:  # noqa: ANN401 - whatever the dataset holds
        try:
            batch = next(self._batches)
        except StopIteration:
            raise
        except Exception:
            self._count()  # this batch could not be loaded: the next one is another
            raise
        self._count()
        return batch

    def __len__(self) -> int:
        return len(self._batches)

    def _count(self) -> None:
        self._pass = self._pass or self._counted.latest_pass
        if self._pass is not None:
            self._counted.receive(self._pass)


def _is_library(frame: FrameType) -> bool:
    """Whether this is the code of a package: progress bars and frameworks ask for the length of one epoch."""
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith("gradorder.") or frame.f_code.co_filename.startswith(_INSTALLED)


def loader_of(sampler: Any, dataset: Dataset[Any], settings: dict[str, Any]) -> DataLoader[Any]:  # noqa: ANN401 - a sampler and `Counted`
    """Build a loader over the dataset with the user's settings; those that the sampler decides are refused."""
    counted: Counted = sampler
    ordered: Sampler[int] = sampler
    _check_length(counted, dataset)
    refused = [name for name in _DECIDED_BY_SAMPLER if name in settings]
    if refused or not settings.get("in_order", True):
        raise ValueError(
            f"{' and '.join(refused or ['in_order=False'])} must not be given to the loader: the sampler decides batch "
            "size and order. Give drop_last to the sampler"
        )
    has_own_generator = settings.get("generator") is None
    settings = {**settings, "generator": torch.Generator()} if has_own_generator else settings
    loader = SamplerLoader(dataset, batch_size=counted.loader_batch_size, sampler=ordered, **settings)
    loader.counted, loader.has_own_generator = counted, has_own_generator
    return loader


def evaluation_loader_of(counted: Counted, dataset: Dataset[Any], settings: dict[str, Any]) -> DataLoader[Any]:
    """Build a loader over all examples in the order of the dataset, which the sampler does not notice."""
    _check_length(counted, dataset)
    refused = [name for name in _ORDER if name in settings]
    if refused:
        raise ValueError(
            f"{' and '.join(refused)} must not be given to the evaluation loader, which gives every example once, in "
            "the order of the dataset. Build a DataLoader for anything else"
        )
    # A generator of its own: the seed of the workers would come from the global one.
    return DataLoader(dataset, **{"batch_size": counted.loader_batch_size, "generator": torch.Generator(), **settings})


def _check_length(counted: Counted, dataset: Dataset[Any]) -> None:
    length = checks.map_style_length("dataset", dataset)
    if length != counted.num_examples:
        raise ValueError(f"dataset must hold the sampler's {counted.num_examples} examples, got {length}")
