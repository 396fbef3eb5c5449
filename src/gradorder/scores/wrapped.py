"""Models that a framework wraps for several processes, and what is inside."""

from typing import cast

from torch import nn
from torch.nn.parallel import DistributedDataParallel


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own model: scoring must not set off the wrapper's exchange between processes.

    `DistributedDataParallel` sends buffers around in every forward pass, in eval mode too, and waits for a backward
    pass after it. Fabric wraps once more. A compiled model is the original one with another forward pass, whose graph
    is a single operation.
    """
    while True:
        if isinstance(model, DistributedDataParallel) or type(model).__name__ == "_FabricModule":
            model = cast("nn.Module", model.module)
        elif type(model).__name__ == "OptimizedModule":
            model = cast("nn.Module", model._orig_mod)  # noqa: SLF001 - no public way
        else:
            return model


def is_sharded(model: nn.Module) -> bool:
    """Whether the parameters are spread over processes (FSDP), so that a forward pass needs all of them at once."""
    return has_flat_parameters(model) or any(hasattr(parameter, "device_mesh") for parameter in model.parameters())


def has_flat_parameters(model: nn.Module) -> bool:
    """Whether `FullyShardedDataParallel` has replaced the layers' parameters by one flat one."""
    return any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())


def with_whole_parameters(model: nn.Module) -> nn.Module:
    """The model, if every process holds all of it.

    Raises:
        ValueError: its parameters are spread over processes.
    """
    if is_sharded(model):
        raise ValueError(
            "model must be whole on every process for a score that looks at gradients, got one sharded by FSDP: use "
            "LogitError or Loss, or observe_gradient_norms with fully_shard"
        )
    return model
