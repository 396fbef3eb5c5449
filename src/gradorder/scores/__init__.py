"""Scores: one number per example at the current weights, from a model and a batch."""

from gradorder.scores.dataset import Score as Score
from gradorder.scores.dataset import score_dataset as score_dataset
from gradorder.scores.explain import explain_norms as explain_norms
from gradorder.scores.gradient_norm import GradientNorm as GradientNorm
from gradorder.scores.gradient_norm import gradient_norms as gradient_norms
from gradorder.scores.observe import observe_gradient_norms as observe_gradient_norms
from gradorder.scores.proxies import LastLayerBound as LastLayerBound
from gradorder.scores.proxies import LogitError as LogitError
from gradorder.scores.proxies import Loss as Loss
from gradorder.scores.vectorized import per_example_gradients as per_example_gradients
