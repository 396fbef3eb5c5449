"""Decide which examples SGD sees, and in what order.

One straight line: batch -> score -> ordering -> layout -> sampler -> the user's own training step.
"""

from gradorder import orderings, selection
from gradorder.diagnostics.advice import Advice, advise
from gradorder.diagnostics.noise_scale import NoiseScale
from gradorder.diagnostics.report import DataReport, data_report
from gradorder.errors import IterableDatasetError, NonFiniteScoresError, RankError, StepError, UnknownStepsError
from gradorder.losses import cross_entropy, margins, squared_error, token_losses
from gradorder.norms import explain_norms, gradient_norms, observe_gradient_norms, per_example_gradients
from gradorder.orderings import *  # noqa: F403 - its own list says what
from gradorder.progress_lr import ProgressLR, one_cycle, warmup_cosine
from gradorder.recommended import recommended
from gradorder.sampler import OrderedSampler
from gradorder.schedules import Constant, InversePerEpoch, InversePerStep, InverseSqrtPerEpoch, InverseSqrtPerStep
from gradorder.scores import GradientNorm, LastLayerBound, LogitError, Loss, score_dataset
from gradorder.selection import *  # noqa: F403 - its own list says what

__all__ = [
    "Advice",
    "Constant",
    "DataReport",
    "GradientNorm",
    "InversePerEpoch",
    "InversePerStep",
    "InverseSqrtPerEpoch",
    "InverseSqrtPerStep",
    "IterableDatasetError",
    "LastLayerBound",
    "LogitError",
    "Loss",
    "NoiseScale",
    "NonFiniteScoresError",
    "OrderedSampler",
    "ProgressLR",
    "RankError",
    "StepError",
    "UnknownStepsError",
    "advise",
    "cross_entropy",
    "data_report",
    "explain_norms",
    "gradient_norms",
    "margins",
    "observe_gradient_norms",
    "one_cycle",
    "per_example_gradients",
    "recommended",
    "score_dataset",
    "squared_error",
    "token_losses",
    "warmup_cosine",
]
__all__ += orderings.__all__
__all__ += selection.__all__

__version__ = "0.1.0"
