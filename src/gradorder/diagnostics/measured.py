"""What `go.recommended` was worth on the tasks on which it was measured: the means of results/default.csv."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """A task on which `go.recommended` was compared with random reshuffling.

    Args:
        name: the task and the optimizer.
        skipped: the share of the examples that an average epoch skipped.
        gradients: the gradients of the run, relative to random reshuffling.
        difference: held-out accuracy minus that of random reshuffling in points; for a regression, the relative
            difference of the held-out losses in percent.
        is_accuracy: whether the difference is one of accuracies.
    """

    name: str
    skipped: float
    gradients: float
    difference: float
    is_accuracy: bool = True

    def __str__(self) -> str:
        outcome = f"{self.difference:+.2f} points" if self.is_accuracy else f"{self.difference:+.1f}% loss"
        return f"{self.name}: skipped {self.skipped:.0%}, {self.gradients:.2f} of the gradients, {outcome}"


MEASURED: tuple[Measured, ...] = ()
