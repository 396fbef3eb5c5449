"""Selections: which examples of a batch to train on, and with which weights.

A new selection is a file here and its name below: what `gradorder` exports, its card, its place in the API and the
tests of the contract follow from this list.
"""

from gradorder.selection.importance_sampling import ImportanceSampling
from gradorder.selection.keep_hardest import KeepHardest
from gradorder.selection.selection import Selection
from gradorder.selection.selective_backprop import SelectiveBackprop
from gradorder.selection.smallest_loss import SmallestLoss
from gradorder.selection.top_losses import TopLosses

__all__ = [
    "ImportanceSampling",
    "KeepHardest",
    "Selection",
    "SelectiveBackprop",
    "SmallestLoss",
    "TopLosses",
]
