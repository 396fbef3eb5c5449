"""The loader of a sampler: a `DataLoader` that leaves batch size and order to it."""

from typing import Any

from torch.utils.data import DataLoader, Dataset, DistributedSampler

from gradorder import checks

_SAMPLERS_OWN = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last")


def loader_of(
    sampler: DistributedSampler[int],
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
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, **settings)
