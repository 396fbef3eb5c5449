"""Loss and accuracy of a network on a data set."""

from math import nan

import torch
from torch import nn
from torch.nn import functional as F

from gradorder.losses import Losses
from gradorder_lab.data.examples import Examples, LabelledBatch
from gradorder_lab.runs import processes

_EVALUATION_BATCH = 500


@torch.no_grad()
def evaluate(model: nn.Module, data: Examples, losses: Losses | None = None) -> tuple[float, float]:
    """Mean loss, and accuracy in percent; under torchrun each process takes its share of the data.

    Where an example has several targets, as a text has characters, both are means over all of them. Losses of one's own
    say nothing of right and wrong: there is no accuracy.
    """
    was_training = model.training
    model.eval()
    loss = num_right = 0.0
    for indices in processes.own(torch.arange(len(data), device=data.labels.device).split(_EVALUATION_BATCH)):
        batch = data.batch(indices)
        if losses is None:
            some_loss, some_right = _of_logits(model, batch)
            loss, num_right = loss + some_loss, num_right + some_right
        else:
            loss += losses(model, batch).double().sum().item()
    model.train(was_training)
    loss, num_right = processes.summed(loss, num_right)
    if losses is not None:
        return loss / len(data), nan
    num_targets = data.labels.numel()
    return loss / num_targets, 100 * num_right / num_targets


def _of_logits(model: nn.Module, batch: LabelledBatch) -> tuple[float, float]:
    """The sum of the losses, and how many predictions are right."""
    inputs, targets = batch
    logits = model(inputs)
    loss = F.cross_entropy(logits, targets, reduction="sum").double().item()
    return loss, (logits.argmax(1) == targets).sum().item()
