"""Selections: which examples of a batch to train on, and with which weights."""

from gradorder.selection.importance_sampling import ImportanceSampling as ImportanceSampling
from gradorder.selection.keep_hardest import KeepHardest as KeepHardest
from gradorder.selection.ordered_sgd import OrderedSGD as OrderedSGD
from gradorder.selection.selection import Selection as Selection
from gradorder.selection.selective_backprop import SelectiveBackprop as SelectiveBackprop
from gradorder.selection.smallest_loss import SmallestLoss as SmallestLoss
