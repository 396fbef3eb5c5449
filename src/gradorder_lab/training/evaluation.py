"""Loss and accuracy of a network on a data set."""

import torch
from torch import nn
from torch.nn import functional as F

from gradorder_lab.data.examples import Examples
from gradorder_lab.runs import processes

_EVALUATION_BATCH = 500


@torch.no_grad()
def evaluate(model: nn.Module, data: Examples) -> tuple[float, float]:
    """Mean loss, and accuracy in percent; under torchrun each process takes its share of the data."""
    was_training = model.training
    model.eval()
    loss = num_right = 0.0
    for indices in processes.own(torch.arange(len(data), device=data.labels.device).split(_EVALUATION_BATCH)):
        inputs, targets = data.batch(indices)
        logits = model(inputs)
        loss += F.cross_entropy(logits, targets, reduction="sum").double().item()
        num_right += (logits.argmax(1) == targets).sum().item()
    model.train(was_training)
    loss, num_right = processes.summed(loss, num_right)
    return loss / len(data), 100 * num_right / len(data)
