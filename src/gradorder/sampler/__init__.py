"""What a DataLoader consumes: an order, batch after batch, that can be resumed and learns from training."""

from gradorder.sampler.stratified import Layout as Layout
from gradorder.sampler.sampler import OrderedSampler as OrderedSampler
