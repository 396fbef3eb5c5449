"""One loss per example out of a language model's logits: the mean over the example's own tokens.

The loss that a language model returns is one number, the mean over all tokens of the batch, where a long example counts
more than a short one. What orders examples is the mean over each one's own tokens.
"""

import torch
from torch.nn import functional as F

from gradorder.losses import IGNORED_TARGET
from gradorder.precision import widened


def token_losses(
    logits: torch.Tensor, labels: torch.Tensor, ignore_index: int = IGNORED_TARGET, *, shift: bool = True
) -> torch.Tensor:
    """The mean cross-entropy of each example's own tokens, shape (B,), in float32 or better.

    By default labels are as a causal model of transformers takes them: a copy of the input tokens, with `ignore_index`
    for padding and prompt. They are shifted here, so that the logits at a position are held against the next token, and
    nothing is asked of the first one. Where every label stands at the logits that predict it already (masked models,
    encoder with decoder, labels shifted by hand) say `shift=False`. With padding on the left, ignore the label of each
    example's first token, too: it would be held against the logits of padding, as in the model's own loss.

    An example of which every label is ignored has the loss 0, with gradient 0: there is nothing to learn from it, and
    an order by loss puts it last.

    Args:
        logits: shape (B, T, V). In half precision the loss is computed in float32, one example at a time: without
            gradients the memory needed is that of one example.
        labels: shape (B, T), whole numbers.
        ignore_index: the label of tokens that do not count.
        shift: whether the logits of position t predict the label of position t + 1.

    Example:
        >>> logits = torch.zeros(2, 3, 10)  # every token is as likely as any other
        >>> token_losses(logits, torch.tensor([[1, 2, 3], [4, 5, -100]]))  # padded on the right
        tensor([2.3026, 2.3026])
    """
    if logits.ndim != 3 or tuple(labels.shape) != tuple(logits.shape[:2]):  # noqa: PLR2004 - batch, position, token
        raise ValueError(
            "logits must have the shape (B, T, V) and labels (B, T), "
            f"got logits {tuple(logits.shape)} and labels {tuple(labels.shape)}"
        )
    targets = F.pad(labels[:, 1:], (0, 1), value=ignore_index) if shift else labels
    # With gradients all at once: they are kept for the backward pass anyway, and exact norms follow one operation.
    size = max(1, len(logits)) if logits.requires_grad else 1
    parts = zip(logits.split(size), targets.split(size), strict=True)
    sums = [_sums_of_losses(some, own, ignore_index) for some, own in parts]
    return (sums[0] if len(sums) == 1 else torch.cat(sums)) / (targets != ignore_index).sum(1).clamp(min=1)


def _sums_of_losses(logits: torch.Tensor, targets: torch.Tensor, ignore_index: int) -> torch.Tensor:
    wide = widened(logits).transpose(1, 2)
    return F.cross_entropy(wide, targets, reduction="none", ignore_index=ignore_index).sum(1)
