"""Data that the experiments train on."""

from gradorder_lab.datasets.augmentation import random_crop_and_flip as random_crop_and_flip
from gradorder_lab.datasets.errors import DatasetError as DatasetError
from gradorder_lab.datasets.errors import DatasetFileError as DatasetFileError
from gradorder_lab.datasets.errors import DatasetNotFoundError as DatasetNotFoundError
from gradorder_lab.datasets.images import ImageDataset as ImageDataset
from gradorder_lab.datasets.loading import Size as Size
from gradorder_lab.datasets.loading import load as load
