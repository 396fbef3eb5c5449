"""The sampler's own loader: a `DataLoader` that counts the batches that training receives."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, final

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from gradorder import checks
from gradorder.sampler.position import Pass

_DECIDED_BY_SAMPLER = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last")


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


class SamplerLoader(DataLoader[Any]):
    """Tells its sampler which batches training has received; with workers, further ones are prefetched.

    Its seed for the workers comes from the sampler, so it draws nothing from the global generator. A training loop with
    dropout then sees the same random numbers before and after a resume.
    """

    counted: Counted | None = None
    """The sampler. A framework that builds the loader anew drops it, and then nothing is counted."""
    has_own_generator = False

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # torch names a class of its own
        if self.counted is None:
            return super().__iter__()
        if self.has_own_generator:
            self.counted.seed_loader(self.generator)  # type: ignore[arg-type] # there is one
        return _CountedBatches(self.counted, super().__iter__)


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


def loader_of(sampler: Any, dataset: Dataset[Any], settings: dict[str, Any]) -> DataLoader[Any]:  # noqa: ANN401 - a sampler and `Counted`
    """Build a loader over the dataset with the user's settings; those that the sampler decides are refused."""
    counted: Counted = sampler
    ordered: Sampler[int] = sampler
    length = checks.map_style_length("dataset", dataset)
    if length != counted.num_examples:
        raise ValueError(f"dataset must hold the sampler's {counted.num_examples} examples, got {length}")
    refused = [name for name in _DECIDED_BY_SAMPLER if name in settings]
    if refused or not settings.get("in_order", True):
        raise ValueError(
            f"{' and '.join(refused or ['in_order=False'])} must not be given to the loader: the sampler decides batch "
            "size and order. Give drop_last to the sampler"
        )
    own = {} if "generator" in settings else {"generator": torch.Generator()}
    loader = SamplerLoader(dataset, batch_size=counted.loader_batch_size, sampler=ordered, **own, **settings)
    loader.counted, loader.has_own_generator = counted, bool(own)
    return loader
