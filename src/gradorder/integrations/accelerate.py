"""Accelerate: a loader that `accelerator.prepare` returns unchanged.

`prepare` splits the batches of every loader over the processes, and repeats examples until all have equally many. The
slices of an `OrderedSampler` are split already, so the loader here comes prepared: it moves batches to the device of
the accelerator, and the accelerator knows it for gradient accumulation. `split_batches` has no effect on it.
"""

from collections.abc import Iterator
from typing import Any, final

import torch
from torch.utils.data import BatchSampler

from gradorder.integrations.framework import PlannedSampler, check_same_dataset, check_version
from gradorder.sampler import OrderedSampler

check_version("accelerate", "1.9")
try:
    from accelerate import Accelerator  # type: ignore[import-untyped]
    from accelerate.data_loader import DataLoaderShard  # type: ignore[import-untyped]
except ModuleNotFoundError as error:
    raise ImportError(
        'gradorder.integrations.accelerate needs accelerate: pip install "gradorder[accelerate]"'
    ) from error


@final
class OrderedLoader(DataLoaderShard):  # type: ignore[misc] # accelerate has no types
    """The loader that `ordered_loader` returns."""

    _is_accelerate_prepared = True

    def __iter__(self) -> Iterator[Any]:
        # The seed of the workers, which torch would draw from the global generator: a resumed run iterates once more
        # than an uninterrupted one, so that dropout would differ.
        self.batch_sampler.sampler.ordered.seed_loader(self.generator)
        return super().__iter__()  # type: ignore[no-any-return]


def ordered_loader(
    accelerator: Accelerator,
    dataset: Any,  # noqa: ANN401 - any map-style dataset
    sampler: OrderedSampler,
    **settings: Any,  # noqa: ANN401 - for DataLoader
) -> OrderedLoader:
    """Return a loader of this process's batches on the accelerator's device; `accelerator.prepare` leaves it as it is.

    Args:
        accelerator: the accelerator of the run.
        dataset: the dataset that the sampler orders.
        sampler: built after the accelerator. The training loop calls `sampler.set_epoch`. For checkpoints, call
            `accelerator.register_for_checkpointing(sampler)`.
        settings: settings of `DataLoader`, except batch size, order and generator.
    """
    if sampler.num_replicas != accelerator.num_processes:
        raise ValueError(
            f"sampler must be built for the accelerator's {accelerator.num_processes} processes, got one for "
            f"{sampler.num_replicas}: build it after the Accelerator"
        )
    check_same_dataset(sampler, "Load all of it on every process: accelerate does not split it before the sampler")
    return OrderedLoader(
        dataset,
        device=accelerator.device if accelerator.device_placement else None,
        batch_sampler=BatchSampler(PlannedSampler(sampler), sampler.loader_batch_size, drop_last=False),
        generator=torch.Generator(),
        # No example is repeated, so `gather_for_metrics` must not drop any.
        _drop_last=True,
        **settings,
    )
