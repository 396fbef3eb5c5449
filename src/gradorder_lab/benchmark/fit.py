"""Whether a network and losses of the user's own fit the data: one small batch, before anything long is run."""

import inspect

import torch
from torch import nn

from gradorder.selection import Selection
from gradorder_lab.errors import LabError
from gradorder_lab.training import own
from gradorder_lab.training.recipe import Training
from gradorder_lab.training.split import Split

_FEW = 8


def check_fit(training: Training, split: Split) -> None:
    """Refuse in one line what would end in the middle of a run.

    Raises:
        LabError: the function of --model does not take the number of classes and the shape of one example, or gives no
            network that can be trained; network or losses do not take a batch, or give something of another shape.
    """
    model = _network(training, split)
    inputs, targets = split.train.batch(torch.arange(min(_FEW, len(split.train))))
    losses = training.own_losses
    name = f"--model {own.unmarked(training.model)!r}"
    if losses is not None:
        name += f" with --losses {own.unmarked(training.losses or '')!r}"
    try:
        with torch.random.fork_rng(devices=[]):
            found = model(inputs) if losses is None else losses(model, (inputs, targets))
    except Exception as error:
        raise LabError(
            f"{name} must fit the data, a batch of inputs {tuple(inputs.shape)} and targets {tuple(targets.shape)}, "
            f"got {own.in_short(error)}"
        ) from error
    if losses is None:
        _check_logits(name, found, targets, split.num_classes)
    else:
        _check_losses(name, found, len(targets))


def check_last_batch(training: Training, split: Split) -> None:
    """Refuse a network with BatchNorm, or the like, where an epoch ends with a batch of one example.

    Raises:
        LabError: it cannot be trained on one example.
    """
    if (len(split.train) - 1) % training.batch_size:
        return
    model, losses = _network(training, split), training.own_losses
    batch = split.train.batch(torch.tensor([len(split.train) - 1]))
    try:
        with torch.random.fork_rng(devices=[]):
            model(batch[0]) if losses is None else losses(model, batch)
    except Exception as error:
        raise LabError(
            f"--batch-size must not leave one of {len(split.train):,} examples for the last batch, on which --model "
            f"{own.unmarked(training.model)!r} cannot be trained, got {training.batch_size}: {own.in_short(error)}"
        ) from error


def check_selection(training: Training, split: Split, method: str) -> None:
    """Try the user's own selection, if it is one, on a small batch.

    Raises:
        LabError: it fails, or chooses something else than examples of the batch.
    """
    rule = own.rule(method)
    if not isinstance(rule, Selection):
        return
    batch = split.train.batch(torch.arange(min(_FEW, len(split.train))))
    name = f"--method {own.unmarked(method)!r}"
    try:
        with torch.random.fork_rng(devices=[]):
            (_, targets), weights = rule.weighted(_network(training, split), batch)
    except Exception as error:
        raise LabError(f"{name} must select examples of a batch, got {own.in_short(error)}") from error
    if len(targets) == 0 or weights.shape != (len(targets),):
        raise LabError(
            f"{name} must select at least one example with one weight each, got {len(targets)} examples and weights "
            f"of shape {tuple(weights.shape)}"
        )


def _network(training: Training, split: Split) -> nn.Module:
    """The network as it starts, if the user's function makes one."""
    name = own.unmarked(training.model)
    if ":" in name:
        _check_builder(name)
    try:
        model: object = training.network(split, seed=0)
    except LabError:
        raise
    except Exception as error:
        raise LabError(f"--model {name!r} must give a network for these data, got {own.in_short(error)}") from error
    if not isinstance(model, nn.Module):
        raise LabError(f"--model {name!r} must give a torch.nn.Module, got {model!r}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise LabError(f"--model {name!r} must give a network with something to train, got no such parameter")
    return model.train()


def _check_builder(name: str) -> None:
    build = own.imported(name, "--model")
    rule = f"--model {name!r} must be a function of the number of classes and the shape of one example"
    if isinstance(build, nn.Module) or not callable(build):
        raise LabError(f"{rule}, which makes the network anew, got {build!r}")
    try:
        inspect.signature(build).bind(10, (1, 28, 28))
    except TypeError as error:
        raise LabError(f"{rule}, got {name.partition(':')[2]}{inspect.signature(build)}: {error}") from error
    except ValueError:  # nobody knows what it takes: it will say so when it is called
        return


def _check_logits(name: str, found: object, targets: torch.Tensor, num_classes: int) -> None:
    wanted = (len(targets), num_classes, *targets.shape[1:])
    rule = f"{name} must give one number for each class, shape {wanted} for {len(targets)} examples"
    if not isinstance(found, torch.Tensor):
        raise LabError(f"{rule}, got {type(found).__name__}")
    shape = tuple(found.shape)
    if len(shape) != len(wanted) or shape[0] != wanted[0] or shape[1] < num_classes or shape[2:] != wanted[2:]:
        raise LabError(f"{rule}, got shape {shape}")


def _check_losses(name: str, found: object, num_examples: int) -> None:
    rule = f"{name} must give one number per example, shape ({num_examples},) here"
    if not isinstance(found, torch.Tensor) or tuple(found.shape) != (num_examples,):
        told = f"shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
        raise LabError(f"{rule}, got {told}")
    if not found.requires_grad:
        raise LabError(f"{rule}, that the network can be trained by, got numbers without grad")
