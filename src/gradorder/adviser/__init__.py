"""The adviser: a short probe of a model and its data, and what it says about ordering and selection."""

from gradorder.adviser.advice import Advice as Advice
from gradorder.adviser.advice import ScoreAdvice as ScoreAdvice
from gradorder.adviser.probe import advise as advise
