"""Data that the experiments train on."""

from gradorder_lab.data.augmentation import epoch_moves as epoch_moves
from gradorder_lab.data.augmentation import random_crop_and_flip as random_crop_and_flip
from gradorder_lab.data.errors import DatasetError as DatasetError
from gradorder_lab.data.errors import DatasetFileError as DatasetFileError
from gradorder_lab.data.errors import DatasetNotFoundError as DatasetNotFoundError
from gradorder_lab.data.images import ImageDataset as ImageDataset
from gradorder_lab.data.loading import SOURCES as SOURCES
from gradorder_lab.data.loading import load as load
