"""Theorems 1 to 4 of the paper as numbers: every term by name from a recorded epoch, and bounds that always hold.

What the terms are, where the published ones do not bound anything and what replaces them: `docs/theory.md`.
"""

from gradorder.bounds.bound import Bound as Bound
from gradorder.bounds.epoch_bound import EpochBound as EpochBound
from gradorder.bounds.epoch_bound import epoch_bound as epoch_bound
from gradorder.bounds.recorded_epoch import RecordedEpoch as RecordedEpoch
from gradorder.bounds.recorded_epoch import record_epoch as record_epoch
from gradorder.bounds.second_order import second_order_shift as second_order_shift
from gradorder.bounds.step_condition import StepCondition as StepCondition
from gradorder.bounds.step_condition import step_condition as step_condition
