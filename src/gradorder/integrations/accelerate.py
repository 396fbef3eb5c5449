"""Accelerate: a loader that `accelerator.prepare` leaves as it is.

`prepare` cuts every loader's batches into shards of its own, and repeats examples until they are even. The slices of an
`OrderedSampler` are the shards already, so the loader here comes prepared: on the accelerator's device, and known to it
for gradient accumulation. `split_batches` makes no difference to it.
"""

from typing import Any, final

from torch.utils.data import BatchSampler

from gradorder.integrations.planned import PlannedSampler
from gradorder.integrations.versions import check_version
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
    """What `ordered_loader` gives."""

    _is_accelerate_prepared = True


def ordered_loader(
    accelerator: Accelerator,
    dataset: Any,  # noqa: ANN401 - any map-style dataset
    sampler: OrderedSampler,
    **settings: Any,  # noqa: ANN401 - for DataLoader
) -> OrderedLoader:
    """This process's batches, on the accelerator's device; `accelerator.prepare` gives it back unchanged.

    Args:
        accelerator: the run's.
        dataset: what the sampler orders.
        sampler: built after the accelerator, planned by the training loop with `sampler.set_epoch`.
        settings: for `DataLoader`, all but batch size and order.
    """
    if sampler.num_replicas != accelerator.num_processes:
        raise ValueError(
            f"sampler must be built for the accelerator's {accelerator.num_processes} processes, got one for "
            f"{sampler.num_replicas}: build it after the Accelerator"
        )
    batches = BatchSampler(PlannedSampler(sampler), sampler.loader_batch_size, drop_last=False)
    return OrderedLoader(
        dataset,
        device=accelerator.device if accelerator.device_placement else None,
        batch_sampler=batches,
        # Nothing is padded, so nothing is to be cut off when results are gathered.
        _drop_last=True,
        **settings,
    )
