"""Look at a model without leaving a trace."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, and afterwards everything as it was, also when an exception passes through.

    Restored: the mode of every module, every buffer (the object and its values), `.grad`, the requires_grad
    flags, and the random state of Python, numpy and torch. Eval mode makes the examples of a batch
    independent: BatchNorm uses its running statistics, dropout does nothing.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [
        (module._buffers, name, buffer, buffer.detach().clone(), buffer._version)  # noqa: SLF001 - no public way
        for module in model.modules()
        for name, buffer in module._buffers.items()  # noqa: SLF001
        if buffer is not None
    ]
    parameters = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    with random_state_kept(model):
        try:
            # Not model.eval(): a user may override train() with side effects of its own.
            for module, _ in modes:
                module.training = False
            yield
        finally:
            for module, training in modes:
                module.training = training
            for owner, name, buffer, values, version in buffers:
                if buffer._version != version:  # noqa: SLF001
                    with torch.no_grad():
                        buffer.copy_(values)
                owner[name] = buffer
            for parameter, requires_grad, grad in parameters:
                parameter.requires_grad_(requires_grad)
                parameter.grad = grad


@contextmanager
def random_state_kept(model: nn.Module) -> Iterator[None]:
    """The random state of Python, numpy and torch, on the CPU and on the model's devices, put back at the end."""
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002 - restored, not used
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        for device in {tensor.device for tensor in model.parameters()} - {torch.device("cpu")}:
            backend = torch.get_device_module(device)
            stack.callback(backend.set_rng_state, backend.get_rng_state(device), device)
        yield


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter or buffer; the CPU where it has none."""
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")
