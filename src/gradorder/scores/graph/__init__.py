"""Each example's gradient norm from the autograd graph of its batch: `walk`, then one backward pass, then `collect`."""

from gradorder.scores.graph.collect import SquaredNorms as SquaredNorms
from gradorder.scores.graph.operations import Node as Node
from gradorder.scores.graph.place import UnprovenError as UnprovenError
from gradorder.scores.graph.walk import Edge as Edge
from gradorder.scores.graph.walk import Junction as Junction
from gradorder.scores.graph.walk import Walk as Walk
from gradorder.scores.graph.walk import walk as walk
