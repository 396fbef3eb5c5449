"""The loader of a sampler: a `DataLoader` that leaves batch size and order to it, and tells what training has got."""

from collections.abc import Callable, Iterator
from typing import Any, final

from torch.utils.data import DataLoader, Dataset, DistributedSampler

from gradorder import checks
from gradorder.sampler.run import Begun, Run

_SAMPLERS_OWN = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last")


class CountingLoader(DataLoader[Any]):
    """Counts for its sampler the batches that training gets: with workers, others are fetched ahead of these."""

    run: Run | None = None
    """The sampler's; a framework that builds the loader anew leaves it out, and then nobody counts."""

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # torch names a class of its own
        return super().__iter__() if self.run is None else _Delivered(self.run, super().__iter__)


@final
class _Delivered(Iterator[Any]):
    """A loader's way through an epoch."""

    def __init__(self, run: Run, begin: Callable[[], Any]) -> None:
        self._run = run
        self._before = run.begun
        self._batches = begin()
        self._begun: Begun | None = None
        self._find()
        if self._begun is not None:
            self._begun.iteration.deliver(0)

    def _find(self) -> None:
        """With workers it begins at once, without them with the first batch."""
        if self._begun is None and self._run.begun is not self._before:
            self._begun = self._run.begun

    def __next__(self) -> Any:  # noqa: ANN401 - whatever the data set holds
        try:
            batch = next(self._batches)
        except StopIteration:
            raise
        except Exception:
            self._count()  # it could not be loaded: the one that follows is another
            raise
        self._count()
        return batch

    def __len__(self) -> int:
        return len(self._batches)

    def _count(self) -> None:
        self._find()
        if self._begun is not None:
            self._run.deliver(self._begun)


def loader_of(
    sampler: DistributedSampler[int],
    run: Run,
    dataset: Dataset[Any],
    *,
    num_examples: int,
    batch_size: int,
    settings: dict[str, Any],
) -> DataLoader[Any]:
    """A loader over the dataset, with settings that are the user's; those that are the sampler's are refused."""
    length = checks.map_style_length("dataset", dataset)
    if length != num_examples:
        raise ValueError(f"dataset must hold the sampler's {num_examples} examples, got {length}")
    refused = [name for name in _SAMPLERS_OWN if name in settings]
    if refused or not settings.get("in_order", True):
        raise ValueError(
            f"{' and '.join(refused or ['in_order=False'])} must not be given to the loader: the sampler decides "
            "batch size and order, and takes drop_last itself"
        )
    loader = CountingLoader(dataset, batch_size=batch_size, sampler=sampler, **settings)
    loader.run = run
    return loader
