"""Losses with one number per example: classification, regression, language models."""

from gradorder.losses.supervised import IGNORED_TARGET as IGNORED_TARGET
from gradorder.losses.supervised import Losses as Losses
from gradorder.losses.supervised import check_classes as check_classes
from gradorder.losses.supervised import cross_entropy as cross_entropy
from gradorder.losses.supervised import inputs_and_targets as inputs_and_targets
from gradorder.losses.supervised import margins as margins
from gradorder.losses.supervised import num_targets as num_targets
from gradorder.losses.supervised import squared_error as squared_error
from gradorder.losses.tokens import token_losses as token_losses
