"""Orderings: a request in, an order out. This list is the one place to enter a new one."""

from gradorder.orderings.block_shuffled import BlockShuffled as BlockShuffled
from gradorder.orderings.flip_flop import FlipFlop as FlipFlop
from gradorder.orderings.gradient_balancing import GradientBalancing as GradientBalancing
from gradorder.orderings.info_batch import InfoBatch as InfoBatch
from gradorder.orderings.ordering import Order as Order
from gradorder.orderings.ordering import Ordering as Ordering
from gradorder.orderings.ordering import Request as Request
from gradorder.orderings.plackett_luce import PlackettLuce as PlackettLuce
from gradorder.orderings.revisiting import Revisiting as Revisiting
from gradorder.orderings.shuffled import Sequential as Sequential
from gradorder.orderings.shuffled import Shuffled as Shuffled
from gradorder.orderings.shuffled import ShuffledOnce as ShuffledOnce
from gradorder.orderings.sorted import Ascending as Ascending
from gradorder.orderings.sorted import Descending as Descending
from gradorder.orderings.undecided import Undecided as Undecided
from gradorder.orderings.with_replacement import WithReplacement as WithReplacement
