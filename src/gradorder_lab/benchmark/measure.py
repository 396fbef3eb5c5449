"""What tells a good run from a bad one: accuracy, or the loss where there is no accuracy."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

_PERCENT = 100


@dataclass(frozen=True)
class Measure:
    """One of the two; the goodness of a run is the larger, the better.

    Args:
        name: what is measured on the test set.
    """

    name: Literal["accuracy", "loss"]

    def goodness(self, measured: float) -> float:
        """Accuracy as it is, loss turned round; a loss that is not finite is the worst.

        >>> Measure("accuracy").goodness(88.5), Measure("loss").goodness(0.25)
        (88.5, -0.25)
        """
        if self.name == "accuracy":
            return measured
        return -measured if isfinite(measured) else -inf

    def goal(self, goodness: float, margin: float) -> float:
        """What counts as reached: a margin of points below an accuracy, or of percent above a loss.

        >>> Measure("accuracy").goal(88.5, 0.5), Measure("loss").goal(-0.25, 10)
        (88.0, -0.275)
        """
        return goodness - (margin if self.name == "accuracy" else abs(goodness) * margin / _PERCENT)

    def told(self, goodness: float) -> str:
        """What was measured, for people.

        >>> Measure("accuracy").told(88.5), Measure("loss").told(-0.25)
        ('88.50%', '0.25')
        """
        return f"{goodness:.2f}%" if self.name == "accuracy" else f"{-goodness:.4g}"


ACCURACY = Measure("accuracy")
LOSS = Measure("loss")
