"""What a DataLoader consumes: an order, batch after batch, that can be resumed and learns from training."""

from gradorder.sampler.layout import Layout as Layout
from gradorder.sampler.sampler import OrderedSampler as OrderedSampler
