"""Data that the experiments train on."""

from gradorder_lab.data.images import ImageDataset as ImageDataset
from gradorder_lab.data.loading import load as load
from gradorder_lab.data.sources import SOURCES as SOURCES
