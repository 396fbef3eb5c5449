"""A network that computes in bfloat16 where torch's autocast allows it; its outputs are float32."""

import torch
from torch import nn


class MixedPrecision(nn.Module):
    """Run a network under autocast. bfloat16 has the range of float32, so losses need no scaling."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the network's outputs as float32."""
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
            outputs: torch.Tensor = self.model(inputs)
        return outputs.float()
