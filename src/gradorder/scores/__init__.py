"""Scores: one number per example at the current weights, from a model and a batch."""

from gradorder.scores.dataset import Score as Score
from gradorder.scores.dataset import score_dataset as score_dataset
from gradorder.scores.score import GradientNorm as GradientNorm
from gradorder.scores.score import LastLayerBound as LastLayerBound
from gradorder.scores.score import LogitError as LogitError
from gradorder.scores.score import Loss as Loss
