"""The gradient norm of an example: its definition, a worked example, and the function that computes it.

**Definition.** A model in eval mode and a batch of B examples give `losses`, shape (B,). The norm of example i is the
Euclidean norm of the gradient of `losses[i]`, as computed in this batch, over all trainable parameters. `reference`
computes it literally, with one backward pass per loss. This package computes the same numbers with one forward and one
backward pass for the whole batch.

**Worked example.** A convolution and a linear layer, on images of shape (B, C, H, W):

    x (B, C, H, W)   --convolution: kernel V (P, C, k, k)-->   z (B, P, T)   T output positions
    z (B, P, T)      --relu, mean over positions-->            a (B, P)
    a (B, P)         --linear: W (K, P), bias b (K,)-->        logits (B, K) --cross-entropy-->   losses (B,)

One backward pass of `losses.sum()` gives the gradient G (B, K) at the logits. Row i is the gradient of `losses[i]`,
because no operation between the logits and the losses mixes examples: `walk` proves this on the graph. Then, for
example i,

    gradient of W    G_i a_i'                  (K, P)         squared norm   |G_i|^2 |a_i|^2
    gradient of b    G_i                       (K,)           squared norm   |G_i|^2

so that the K x P gradient is never computed. The same pass gives the gradient D (B, P, T) at z. The convolution applies
V at each position t to a patch u_t of C k^2 numbers, so U_i (T, C k^2) holds the patches of example i, and

    gradient of V    D_i U_i                   (P, C k^2)     squared norm   |D_i U_i|^2

The norm of example i is the root of the sum of the three:

    >>> from gradorder import gradient_norms
    >>> from torch.nn.functional import cross_entropy, unfold
    >>> conv, linear = nn.Conv2d(3, 4, 3, bias=False), nn.Linear(4, 5)
    >>> x, y = torch.randn(8, 3, 6, 6), torch.randint(5, (8,))
    >>> z = conv(x)
    >>> a = z.relu().mean((2, 3))
    >>> logits = linear(a)
    >>> losses = cross_entropy(logits, y, reduction="none")
    >>> G, D = torch.autograd.grad(losses.sum(), (logits, z))
    >>> U = unfold(x, 3).mT                                                  # (8, 16, 27)
    >>> squares = G.square().sum(1) * (a.square().sum(1) + 1)                # W and b
    >>> squares += (D.flatten(2) @ U).square().sum((1, 2))                   # V
    >>> model = nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear)
    >>> torch.allclose(gradient_norms(model, (x, y)), squares.sqrt(), rtol=1e-4)
    True

**The files.** `walk` goes from the losses to the parameters, with one rule for each kind of operation (`rules`), and
finds where parameters meet examples. `squared_norms` runs the backward pass and sums the squared norms there, in
factored form (`factored`). A chain of linear layers and ReLUs skips the graph (`chain`). If the graph proves nothing,
each example is differentiated alone, and the results are compared with the batch (`isolation`).
"""

import sys
import warnings
from pathlib import Path
from weakref import WeakSet

import torch
from torch import nn

from gradorder import checks
from gradorder.batches import Batch, map_tensors, num_examples
from gradorder.losses import Losses, cross_entropy
from gradorder.norms import chain, isolation
from gradorder.norms.model_state import SCORING, differentiable, trainable_parameters, unwrapped
from gradorder.norms.operation import UnprovenError
from gradorder.norms.squared_norms import squared_norms
from gradorder.norms.walk import walk


def gradient_norms(model: nn.Module, batch: Batch, losses: Losses | None = None) -> torch.Tensor:
    """Compute the gradient norm of each example of a batch, over all trainable parameters.

    Args:
        model: evaluated in eval mode and left as it was.
        batch: whatever `losses` takes.
        losses: a function `(model, batch) -> (B,)` with one loss per example; cross-entropy of a batch
            `(inputs, targets)` by default.

    Returns:
        The norms, shape (B,), without grad, float32 or better: entry i is the norm of the gradient of `losses[i]`.

    Raises:
        ValueError: the graph of the batch does not prove which numbers belong to which example, and the losses or the
            gradients of single examples differ from those in the batch.
    """
    model, losses = unwrapped(model), losses or cross_entropy
    with SCORING:
        norms = chain.gradient_norms(model, batch, losses)
    if norms is not None:
        return norms
    size = num_examples(batch)
    with differentiable(model):
        parameters = trainable_parameters(model)
        if size == 0:
            return torch.zeros(0, device=parameters[0].device)
        batch = map_tensors(_outside_inference, batch)
        values = checks.per_example("losses", losses(model, batch), size)
        try:
            return squared_norms(values, walk(values, {id(parameter) for parameter in parameters})).sqrt_()
        except UnprovenError as error:
            _warn_once(model, str(error))
        del values  # its graph
        return isolation.gradient_norms(model, batch, losses)


def _outside_inference(tensor: torch.Tensor) -> torch.Tensor:
    """Tensors made in inference mode cannot be part of a graph; their copies can."""
    return tensor.clone() if tensor.is_inference() else tensor


def _warn_once(model: nn.Module, reason: str) -> None:
    if model not in _warned:
        _warned.add(model)
        warnings.warn(
            f"the gradient norms of this {type(model).__name__} are computed one example at a time, which is slow: "
            f"{reason}. explain_norms(model, batch) tells more",
            stacklevel=_level_of_caller(),
        )


_warned: WeakSet[nn.Module] = WeakSet()
_PACKAGE = str(Path(__file__).parent.parent)


def _level_of_caller() -> int:
    """The stack level, as seen from the caller of this function, of the first frame outside this library."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - `warnings` uses it, too
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
