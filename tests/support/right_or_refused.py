"""A norm is right, or there is none and the library says why."""

import traceback
from pathlib import Path

import torch
from torch.utils.checkpoint import CheckpointError

import gradorder as go
from gradorder.batches import num_examples, take
from gradorder.norms import isolation, reference
from gradorder.norms.model_state import differentiable

REFUSED = "refused"
GRADORDER = Path(go.__file__).parent
CHECKPOINTS_ARE_OBSERVED = hasattr(torch.utils.checkpoint, "GraphExecGroup")
"""Torch before 2.9 hands out a checkpointed activation once only: there its own error ends the backward pass."""


def outcome(compute):
    """The norms, or REFUSED where the library itself raised a sentence; any other error passes."""
    try:
        return compute()
    except ValueError as error:
        if not is_refusal(error):
            raise
        return REFUSED


def is_refusal(error):
    """Whether the library itself raised this: an error from inside torch that came through is no refusal."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = GRADORDER in Path(innermost.filename).parents
    return isinstance(error, ValueError) and is_ours and innermost.line.startswith("raise ")


def outcome_or_too_early(compute):
    """The same where norms may be asked for before they are there, which is a RuntimeError of `observe`."""
    try:
        return outcome(compute)
    except RuntimeError as error:
        if "norms are there after" not in str(error):
            raise
        return REFUSED


def scored(model, batch, losses=None):
    return outcome(lambda: go.gradient_norms(model, batch, losses))


def observed(model, batch, losses=None):
    """The norms of a training step, whatever mode the model is in; its gradients are forgotten."""

    def step():
        with go.observe_gradient_norms(model) as seen:
            seen.losses((losses or go.cross_entropy)(model, batch)).mean().backward()
            return seen.norms

    try:
        return outcome(step)
    except CheckpointError:
        if CHECKPOINTS_ARE_OBSERVED:
            raise
        return REFUSED
    finally:
        model.zero_grad()


def in_batch(model, batch, losses=None):
    """The oracle: one autograd pass for each loss of the batch."""
    return reference.gradient_norms(model, batch, losses)


def alone(model, batch, losses=None):
    """The same for examples that do not depend on each other: each is a batch of its own."""
    with differentiable(model):
        chunks = isolation.one_at_a_time(model, batch, losses or go.cross_entropy)
        return torch.cat([row.norm(dim=1) for row, _ in chunks])


def alone_as_it_is(model, batch, losses=None):
    """The same for models of mixed precisions or complex numbers, in the mode that the model is in."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    norms = []
    for i in range(num_examples(batch)):
        loss = (losses or go.cross_entropy)(model, take(batch, torch.tensor([i])))[0]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        norms.append(sum(gradient.abs().double().square().sum() for gradient in gradients).sqrt())
    return torch.stack(norms)


def assert_right(norms, expected, rtol=1e-5):
    assert norms is not REFUSED, "refused, though there is a right number"
    noise = 1e-7 * expected.max().item()  # where the right number is zero
    torch.testing.assert_close(norms.double(), expected.double(), rtol=rtol, atol=noise)


def assert_right_or_refused(norms, expected, rtol=1e-5):
    if norms is not REFUSED:
        assert_right(norms, expected, rtol)
