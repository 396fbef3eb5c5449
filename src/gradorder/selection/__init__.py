"""Selections: which examples of a batch to train on, and with which weights.

A new selection is a file in this folder and its name in the list below. `gradorder` exports the list, and the
documentation makes a card and an API entry of each name.
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
