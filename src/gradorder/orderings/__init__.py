"""Orderings: a request in, an order out.

A new ordering is a file here and its name below: what `gradorder` exports, its card, its place in the API and the
tests of the contract follow from this list.
"""

from gradorder.orderings.block_shuffled import BlockShuffled
from gradorder.orderings.flip_flop import FlipFlop
from gradorder.orderings.gradient_balancing import GradientBalancing
from gradorder.orderings.info_batch import InfoBatch
from gradorder.orderings.informative import Informative
from gradorder.orderings.ordering import Order, Ordering, Request
from gradorder.orderings.plackett_luce import PlackettLuce
from gradorder.orderings.revisiting import Revisiting
from gradorder.orderings.shuffled import Sequential, Shuffled, ShuffledOnce
from gradorder.orderings.sorted import Ascending, Descending
from gradorder.orderings.undecided import Undecided
from gradorder.orderings.unlearned import Unlearned
from gradorder.orderings.with_replacement import WithReplacement

__all__ = [
    "Ascending",
    "BlockShuffled",
    "Descending",
    "FlipFlop",
    "GradientBalancing",
    "InfoBatch",
    "Informative",
    "Order",
    "Ordering",
    "PlackettLuce",
    "Request",
    "Revisiting",
    "Sequential",
    "Shuffled",
    "ShuffledOnce",
    "Undecided",
    "Unlearned",
    "WithReplacement",
]
