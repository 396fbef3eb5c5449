"""Theorems 1 to 4 of the paper as numbers: every term by name, computed from a recorded epoch.

`docs/theory.md` explains the terms, shows where the published bounds fail, and proves the corrected ones.
"""

from gradorder_lab.theory.epoch_bound import Bound as Bound
from gradorder_lab.theory.epoch_bound import EpochBound as EpochBound
from gradorder_lab.theory.epoch_bound import epoch_bound as epoch_bound
from gradorder_lab.theory.recorded_epoch import RecordedEpoch as RecordedEpoch
from gradorder_lab.theory.recorded_epoch import record_epoch as record_epoch
from gradorder_lab.theory.second_order import second_order_shift as second_order_shift
from gradorder_lab.theory.step_condition import StepCondition as StepCondition
from gradorder_lab.theory.step_condition import step_condition as step_condition
