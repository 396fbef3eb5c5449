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


MEASURED = (
    Measured("friedman, SGD", 0.145, 0.929, -3.58, is_accuracy=False),
    Measured("friedman, AdamW", 0.297, 0.844, -3.10, is_accuracy=False),
    Measured("noisy table, SGD", 0.245, 0.856, 0.52),
    Measured("noisy table, AdamW", 0.219, 0.885, 0.24),
    Measured("terrain, SGD", 0.228, 0.849, 0.37),
    Measured("terrain, AdamW", 0.180, 0.902, 0.23),
    Measured("fashion-mnist, SGD", 0.450, 0.770, 0.17),
    Measured("fashion-mnist, AdamW", 0.429, 0.743, 0.02),
    Measured("sst2, SGD", 0.445, 0.763, 0.38),
    Measured("sst2, AdamW", 0.486, 0.707, 0.14),
)
