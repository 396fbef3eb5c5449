"""Run a model for a score and leave no trace; look inside the wrappers of frameworks."""

import random
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parallel import DistributedDataParallel

SCORING = threading.RLock()
"""One score runs at a time. The mode of a model and the random state belong to the process, not to a thread."""


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode, and restore everything afterwards, also if an exception passes through.

    Restored are the mode of every module, every buffer (the object and its values), `.grad`, the requires_grad flags,
    the weights of embeddings with `max_norm`, which a forward pass changes, and the random state of Python, numpy and
    torch. Other threads that want to score wait until then.

    Raises:
        ValueError: the model has lazy parameters, which its first forward pass would create.
    """
    modules = list(model.modules())
    _refuse_lazy(modules)
    with SCORING:
        modes = [module.training for module in modules]
        # Straight from the dictionaries: for a small model, walking them by name takes longer than the pass itself.
        parameters = [
            (parameter, parameter.requires_grad, parameter.grad)
            for module in modules
            for parameter in module._parameters.values()  # noqa: SLF001
            if parameter is not None
        ]
        buffers = [
            (module._buffers, name, buffer, buffer.detach().clone(), buffer._version)  # noqa: SLF001 - no public way
            for module in modules
            for name, buffer in module._buffers.items()  # noqa: SLF001
            if buffer is not None
        ]
        devices = {parameter.device for parameter, _, _ in parameters}
        with restored_random_state(devices), _restored_weights(modules):
            try:
                # Not model.eval(): a user may override train() with side effects.
                for module in modules:
                    module.training = False
                yield
            finally:
                for module, training in zip(modules, modes, strict=True):
                    module.training = training
                for owner, name, buffer, values, version in buffers:
                    if buffer._version != version:  # noqa: SLF001
                        with torch.no_grad():
                            buffer.copy_(values)
                    owner[name] = buffer
                for parameter, requires_grad, grad in parameters:
                    if parameter.requires_grad is not requires_grad:
                        parameter.requires_grad_(requires_grad)
                    if parameter.grad is not grad:
                        parameter.grad = grad


@contextmanager
def differentiable(model: nn.Module) -> Iterator[None]:
    """`eval_mode` with gradients, also inside `torch.no_grad` and `torch.inference_mode`."""
    with eval_mode(model), torch.inference_mode(mode=False), torch.enable_grad():
        yield


def _refuse_lazy(modules: list[nn.Module]) -> None:
    for module in modules:
        if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
            raise ValueError(
                f"model must have all its parameters, got a {type(module).__name__} that creates them in its first "
                "forward pass. Run one batch through the model before scoring it"
            )


@contextmanager
def _restored_weights(modules: list[nn.Module]) -> Iterator[None]:
    """Embeddings with `max_norm` shorten the rows that they look up, also in eval mode; no other weights are copied."""
    weights = [
        (weight, weight.detach().clone(), weight._version)  # noqa: SLF001 - no public way
        for module in modules
        if getattr(module, "max_norm", None) is not None
        for weight in module.parameters(recurse=False)
    ]
    try:
        yield
    finally:
        for weight, values, version in weights:
            if weight._version != version:  # noqa: SLF001
                with torch.no_grad():
                    weight.copy_(values)


@contextmanager
def restored_random_state(devices: set[torch.device]) -> Iterator[None]:
    """Restore the random state of Python, numpy and torch at the end, on the CPU and on these devices."""
    accelerators = [(torch.get_device_module(device), device) for device in devices if device.type != "cpu"]
    theirs = [(backend, backend.get_rng_state(device), device) for backend, device in accelerators]
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - restored, not used
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
        for backend, state, device in theirs:
            backend.set_rng_state(state, device)


@contextmanager
def slow_vmap_allowed() -> Iterator[None]:
    """Silence the note of torch.func.vmap about operations that it runs one by one: they are as exact as others."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter or buffer; the CPU if it has none."""
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")


def trainable_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that count, each once even if it is shared.

    Raises:
        ValueError: there are none, some hold complex numbers, or FSDP has sharded them.
    """
    parameters = [parameter for parameter in with_whole_parameters(model).parameters() if parameter.requires_grad]
    check_countable(parameters)
    return parameters


def check_countable(parameters: list[nn.Parameter]) -> None:
    """Raise ValueError if there is no parameter, or one that holds complex numbers."""
    if not parameters:
        raise ValueError(
            "model must have at least one parameter with requires_grad=True: without one every gradient is empty"
        )
    for parameter in parameters:
        if parameter.is_complex():
            raise ValueError(
                f"model must have real parameters, got one of {parameter.dtype} and shape {tuple(parameter.shape)}. "
                "Store real and imaginary parts as two parameters (torch.view_as_real)"
            )


# Wrappers of frameworks ---------------------------------------------------------------------------------------------


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own model inside the wrappers of torch and Fabric.

    `DistributedDataParallel` exchanges buffers in every forward pass and then waits for a backward pass. Fabric wraps
    once more. A compiled model has the original inside; its own graph is a single operation.
    """
    fabric = (
        *_class_if_imported("lightning.fabric.wrappers", "_FabricModule"),
        *_class_if_imported("lightning_fabric.wrappers", "_FabricModule"),
    )
    compiled = _class_if_imported("torch._dynamo.eval_frame", "OptimizedModule")
    while True:
        if isinstance(model, (DistributedDataParallel, *fabric)):
            model = cast("nn.Module", model.module)
        elif isinstance(model, compiled):
            model = cast("Any", model)._orig_mod  # noqa: SLF001 - no public way
        else:
            return model


def _class_if_imported(module: str, name: str) -> tuple[type, ...]:
    """A class, without importing its module: if nobody has imported it, no object is of this class."""
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()


def is_sharded(model: nn.Module) -> bool:
    """True if FSDP has spread the parameters over processes, so that a forward pass needs all of them at once."""
    distributed = _class_if_imported("torch.distributed.tensor", "DTensor")
    if has_flat_parameters(model):
        return True
    return bool(distributed) and any(isinstance(parameter, distributed) for parameter in model.parameters())


def has_flat_parameters(model: nn.Module) -> bool:
    """True if `FullyShardedDataParallel` has replaced the parameters of the layers by a flat one."""
    flat = _class_if_imported("torch.distributed.fsdp", "FullyShardedDataParallel")
    return bool(flat) and any(isinstance(module, flat) for module in model.modules())


def with_whole_parameters(model: nn.Module) -> nn.Module:
    """The model, if every process holds all of it.

    Raises:
        ValueError: FSDP has sharded its parameters.
    """
    if is_sharded(model):
        raise ValueError(
            "model must be whole on every process for a score that needs gradients, got one sharded by FSDP: use "
            "LogitError or Loss, or observe_gradient_norms with fully_shard"
        )
    return model
