"""Look at a model without leaving a trace."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, and afterwards everything as it was, also when an exception passes through.

    Restored: the mode of every module, every buffer (the object and its values), `.grad`, the requires_grad
    flags, the weights of embeddings with `max_norm`, which a forward pass changes, and the random state of Python,
    numpy and torch. Eval mode makes the examples of a batch independent: BatchNorm uses its running statistics,
    dropout does nothing.

    Raises:
        ValueError: the model has lazy parameters, which its first forward pass would make.
    """
    modules = list(model.modules())
    _refuse_lazy(modules)
    modes = [module.training for module in modules]
    # Straight from the dictionaries: for a small model, walking them by name would take longer than the pass itself.
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
    with random_state_kept(devices), _weights_kept(modules):
        try:
            # Not model.eval(): a user may override train() with side effects of its own.
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


def _refuse_lazy(modules: list[nn.Module]) -> None:
    for module in modules:
        if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
            raise ValueError(
                f"model must have all its parameters, got a {type(module).__name__} that makes them in its first "
                "forward pass: run one batch through the model before it is scored"
            )


@contextmanager
def _weights_kept(modules: list[nn.Module]) -> Iterator[None]:
    """Embeddings with `max_norm` shorten the rows that they look up, in eval mode too; no other weights are copied."""
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
def random_state_kept(devices: set[torch.device]) -> Iterator[None]:
    """The random state of Python, numpy and torch, on the CPU and on these devices, put back at the end."""
    accelerators = [(torch.get_device_module(device), device) for device in devices if device.type != "cpu"]
    theirs = [(backend, backend.get_rng_state(device), device) for backend, device in accelerators]
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - kept, not used
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
        for backend, state, device in theirs:
            backend.set_rng_state(state, device)


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter or buffer; the CPU where it has none."""
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")
