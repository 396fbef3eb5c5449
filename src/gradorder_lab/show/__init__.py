"""The page: one file with every verdict and every figure, that opens from disk and asks nothing of the network."""

from gradorder_lab.show.writing import write as write
