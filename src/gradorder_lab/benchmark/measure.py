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

    def margin(self, goodness: float, points: float) -> float:
        """How much less still counts as reached: so many points of accuracy, or percent of the loss.

        >>> Measure("accuracy").margin(88.5, 0.5), Measure("loss").margin(-0.25, 10)
        (0.5, 0.025)
        """
        return points if self.name == "accuracy" else abs(goodness) * points / _PERCENT

    def told(self, goodness: float) -> str:
        """What was measured, for people.

        >>> Measure("accuracy").told(88.5), Measure("loss").told(-0.25)
        ('88.50%', '0.25')
        """
        return f"{goodness:.2f}%" if self.name == "accuracy" else f"{-goodness:.4g}"


ACCURACY = Measure("accuracy")
LOSS = Measure("loss")
