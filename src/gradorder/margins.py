"""By how much the logit of the label leads: what an area under the margin is made of."""

import torch


def margins(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The logit of each example's label minus the largest other one, shape (B,); positive where it is predicted.

    Args:
        logits: shape (B, C), with at least two classes.
        targets: the labels as class numbers, shape (B,).

    Example:
        >>> margins(torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 5.0]]), torch.tensor([0, 1]))
        tensor([ 2., -4.])
    """
    if logits.ndim != 2 or logits.shape[1] < 2 or tuple(targets.shape) != (len(logits),):  # noqa: PLR2004 - batch, class
        raise ValueError(
            "logits must have the shape (B, C) with C >= 2 and targets (B,), "
            f"got logits {tuple(logits.shape)} and targets {tuple(targets.shape)}"
        )
    label = targets[:, None]
    others = logits.scatter(1, label, -torch.inf)
    return logits.gather(1, label)[:, 0] - others.amax(1)
