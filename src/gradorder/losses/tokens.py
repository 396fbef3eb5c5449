"""Per-example losses of language models.

A language model returns one loss, the mean over all tokens of the batch, in which long examples count more than short
ones. Ordering needs one loss per example: the mean over the tokens of that example.
"""

import torch
from torch.nn import functional as F

from gradorder.checks import widened
from gradorder.losses.supervised import IGNORED_TARGET


def token_losses(
    logits: torch.Tensor, labels: torch.Tensor, ignore_index: int = IGNORED_TARGET, *, shift: bool = True
) -> torch.Tensor:
    """Return the mean cross-entropy over the tokens of each example, shape (B,), in float32 or better.

    By default the labels are those of a causal model of transformers: a copy of the input tokens, with `ignore_index`
    for padding and prompt. This function shifts them, so the logits at a position predict the next token and the first
    token has no loss. Use `shift=False` if the labels are aligned with the logits already (masked language models,
    encoder-decoder models, labels that you have shifted). If you pad on the left, also ignore the label of the first
    token of each example: like the model's own loss, this one would compare it with the logits of a padding token.

    An example whose labels are all ignored has the loss 0 and the gradient 0.

    Args:
        logits: shape (B, T, V). The loss of half-precision logits is computed in float32. Without gradients this
            happens example by example, so it needs memory for one example only.
        labels: shape (B, T), integers.
        ignore_index: the label of tokens without a loss.
        shift: whether the logits of position t predict the label of position t + 1.

    Example:
        >>> logits = torch.zeros(2, 3, 10)  # all tokens are equally likely
        >>> token_losses(logits, torch.tensor([[1, 2, 3], [4, 5, -100]]))  # padded on the right
        tensor([2.3026, 2.3026])
    """
    if logits.ndim != 3 or tuple(labels.shape) != tuple(logits.shape[:2]):  # noqa: PLR2004 - batch, position, token
        raise ValueError(
            "logits must have the shape (B, T, V) and labels (B, T), "
            f"got logits {tuple(logits.shape)} and labels {tuple(labels.shape)}"
        )
    targets = F.pad(labels[:, 1:], (0, 1), value=ignore_index) if shift else labels
    # With gradients all at once: the backward pass keeps the wide logits anyway, and exact norms see one operation.
    size = max(1, len(logits)) if logits.requires_grad else 1
    parts = zip(logits.split(size), targets.split(size), strict=True)
    sums = [_sums_of_losses(some, own, ignore_index) for some, own in parts]
    return (sums[0] if len(sums) == 1 else torch.cat(sums)) / (targets != ignore_index).sum(1).clamp(min=1)


def _sums_of_losses(logits: torch.Tensor, targets: torch.Tensor, ignore_index: int) -> torch.Tensor:
    wide = widened(logits).transpose(1, 2)
    return F.cross_entropy(wide, targets, reduction="none", ignore_index=ignore_index).sum(1)
