"""Decide which examples SGD sees, and in what order.

One straight line: batch -> score -> ordering -> layout -> sampler -> the user's own training step.
"""

from gradorder import bounds as bounds
from gradorder.adviser import Advice as Advice
from gradorder.adviser import advise as advise
from gradorder.errors import IterableDatasetError as IterableDatasetError
from gradorder.errors import NonFiniteScoresError as NonFiniteScoresError
from gradorder.errors import RankError as RankError
from gradorder.errors import StepError as StepError
from gradorder.losses import cross_entropy as cross_entropy
from gradorder.losses import squared_error as squared_error
from gradorder.orderings import Ascending as Ascending
from gradorder.orderings import BlockShuffled as BlockShuffled
from gradorder.orderings import Descending as Descending
from gradorder.orderings import FlipFlop as FlipFlop
from gradorder.orderings import GradientBalancing as GradientBalancing
from gradorder.orderings import InfoBatch as InfoBatch
from gradorder.orderings import Order as Order
from gradorder.orderings import Ordering as Ordering
from gradorder.orderings import PlackettLuce as PlackettLuce
from gradorder.orderings import Request as Request
from gradorder.orderings import Revisiting as Revisiting
from gradorder.orderings import Sequential as Sequential
from gradorder.orderings import Shuffled as Shuffled
from gradorder.orderings import ShuffledOnce as ShuffledOnce
from gradorder.orderings import Undecided as Undecided
from gradorder.orderings import WithReplacement as WithReplacement
from gradorder.recommended import recommended as recommended
from gradorder.sampler import OrderedSampler as OrderedSampler
from gradorder.schedules import Constant as Constant
from gradorder.schedules import InversePerEpoch as InversePerEpoch
from gradorder.schedules import InversePerStep as InversePerStep
from gradorder.schedules import InverseSqrtPerEpoch as InverseSqrtPerEpoch
from gradorder.schedules import InverseSqrtPerStep as InverseSqrtPerStep
from gradorder.scores import GradientNorm as GradientNorm
from gradorder.scores import LastLayerBound as LastLayerBound
from gradorder.scores import LogitError as LogitError
from gradorder.scores import Loss as Loss
from gradorder.scores import gradient_norms as gradient_norms
from gradorder.scores import observe_gradient_norms as observe_gradient_norms
from gradorder.scores import per_example_gradients as per_example_gradients
from gradorder.scores import score_dataset as score_dataset
from gradorder.selection import ImportanceSampling as ImportanceSampling
from gradorder.selection import KeepHardest as KeepHardest
from gradorder.selection import OrderedSGD as OrderedSGD
from gradorder.selection import Selection as Selection
from gradorder.selection import SelectiveBackprop as SelectiveBackprop
from gradorder.selection import SmallestLoss as SmallestLoss

__version__ = "0.1.0.dev0"
