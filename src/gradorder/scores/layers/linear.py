"""nn.Linear: z = W a + b.

With the gradient g_t = d loss / d z_t at each position t of an example, dW = sum_t g_t a_t' and
db = sum_t g_t. For one position ||dW||^2 = ||g||^2 ||a||^2; for several

    ||dW||^2 = sum_{t,s} <g_t, g_s> <a_t, a_s>,

a product of two Gram matrices, which never forms dW: the cheaper way while there are fewer positions than
weights.
"""

import torch


def weight_squares(inputs: torch.Tensor, output_gradients: torch.Tensor) -> torch.Tensor:
    """||dW||^2 of each example, shape (B,), from inputs (B, ..., d) and output gradients (B, ..., p)."""
    if inputs.ndim == 2:  # noqa: PLR2004 - (B, d)
        return _squares(inputs) * _squares(output_gradients)
    a, g = inputs.flatten(1, -2), output_gradients.flatten(1, -2)
    positions, width_in, width_out = a.shape[1], a.shape[2], g.shape[2]
    if positions * (width_in + width_out) < width_in * width_out:
        return (torch.bmm(a, a.mT) * torch.bmm(g, g.mT)).sum((1, 2)).clamp(min=0)
    return _squares(torch.bmm(g.mT, a))


def bias_squares(output_gradients: torch.Tensor) -> torch.Tensor:
    """||db||^2 of each example, shape (B,)."""
    if output_gradients.ndim == 2:  # noqa: PLR2004 - (B, p)
        return _squares(output_gradients)
    return _squares(output_gradients.flatten(1, -2).sum(1))


def _squares(rows: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(rows.flatten(1), dim=1)
    return norms.square()
