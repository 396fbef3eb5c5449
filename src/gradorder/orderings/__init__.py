"""Orderings: a request in, an order out.

A new ordering is a file in this folder and its name in the list below. `gradorder` exports the list, the documentation
makes a card and an API entry of each name, and the tests check the contract.
"""

from gradorder.orderings.block_shuffled import BlockShuffled
from gradorder.orderings.flip_flop import FlipFlop
from gradorder.orderings.gradient_balancing import GradientBalancing
from gradorder.orderings.info_batch import InfoBatch
from gradorder.orderings.informative import Informative
from gradorder.orderings.ordering import Order, Ordering, OrderingRun, Request
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
    "OrderingRun",
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
