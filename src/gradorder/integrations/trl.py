"""TRL's `SFTTrainer`: supervised fine-tuning in an order, by the losses that training computes anyway.

TRL scores the tokens of a batch without building its logits, so what is remembered of a step comes from the log
probabilities that it has then. A second pass is not made.
"""

from collections.abc import Mapping
from typing import Any, final

import torch

from gradorder.integrations.framework import check_version

check_version("trl", "1.16")
try:
    from trl import SFTTrainer  # type: ignore[attr-defined] # its modules come when they are asked for

    from gradorder.integrations.grpo import OrderedGRPOTrainer as OrderedGRPOTrainer  # noqa: PLC0414 - exported
    from gradorder.integrations.grpo import OrderedRLOOTrainer as OrderedRLOOTrainer  # noqa: PLC0414 - exported
    from gradorder.integrations.transformers import OrderedTrainer, causal_losses_of_outputs
except ModuleNotFoundError as error:
    raise ImportError('gradorder.integrations.trl needs TRL: pip install "gradorder[trl]"') from error


def sft_losses(batch: Mapping[str, Any], outputs: Any) -> torch.Tensor:  # noqa: ANN401 - a ModelOutput
    """Return the mean loss of each example's own tokens, shape (B,), from a training step of `SFTTrainer`.

    An example whose labels are all ignored has the loss 0, as in `token_losses`.
    """
    if getattr(outputs, "log_probs", None) is None:  # with label smoothing, SFTTrainer computes logits
        return causal_losses_of_outputs(batch, outputs)
    log_probs: torch.Tensor = outputs.log_probs  # 0 where a label is ignored
    sums = log_probs.sum(1, dtype=torch.promote_types(log_probs.dtype, torch.float32))
    num_tokens: torch.Tensor = outputs.label_mask.sum(1)
    return -sums / num_tokens.clamp(min=1)


@final
class OrderedSFTTrainer(OrderedTrainer, SFTTrainer):
    """`trl.SFTTrainer` with an order: the arguments of both, see `OrderedTrainer`.

    Without a `score` the loss of each example's own tokens is remembered from training (`sft_losses`), prompt and
    padding left out as in training itself.

    Raises:
        ValueError: with `packing` or `padding_free`.
    """

    def __init__(self, model: Any, args: Any = None, *others: Any, **settings: Any) -> None:  # noqa: ANN401 - of both
        for name in ("packing", "padding_free"):
            if getattr(args, name, False):
                raise ValueError(
                    f"{name} must be False with an order, got True: it puts several examples into one row, and then no "
                    f"loss is that of one example. Set {name}=False in SFTConfig"
                )
        super().__init__(model, args, *others, **{"record": sft_losses, **settings})
