"""What `go.recommended` was worth on the confirmation tasks of the benchmark. `make generated` writes the numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """A task on which `go.recommended` was compared with random reshuffling.

    Args:
        name: the task and the optimizer.
        skipped: the share of an epoch that `go.advise` says would be skipped, halfway through a plain run.
        gradients: the gradients of a whole run, relative to random reshuffling.
        difference: test accuracy minus that of random reshuffling in points; for a regression, the relative difference
            of the test losses in percent.
        is_accuracy: whether the difference is one of accuracies.
    """

    name: str
    skipped: float
    gradients: float
    difference: float
    is_accuracy: bool = True

    def __str__(self) -> str:
        outcome = f"{self.difference:+.2f} points" if self.is_accuracy else f"{self.difference:+.1f}% loss"
        return f"{self.name}: {self.skipped:.0%} halfway; whole run: {self.gradients:.2f} of the gradients, {outcome}"


MEASURED = (
    Measured("a9a, SGD", 0.352, 0.834, 0.04),
    Measured("a9a, AdamW", 0.360, 0.860, 0.01),
    Measured("w8a, SGD", 0.598, 0.656, 0.01),
    Measured("w8a, AdamW", 0.598, 0.663, 0.00),
    Measured("california-housing, SGD", 0.386, 0.802, -1.24, is_accuracy=False),
    Measured("california-housing, AdamW", 0.388, 0.779, -0.76, is_accuracy=False),
    Measured("digits, SGD", 0.553, 0.701, -0.07),
    Measured("digits, AdamW", 0.521, 0.708, 0.00),
    Measured("digits, 20% noisy labels, SGD", 0.264, 0.896, 0.17),
    Measured("digits, 20% noisy labels, AdamW", 0.259, 0.900, 0.19),
    Measured("breast-cancer, SGD", 0.475, 0.757, -0.12),
    Measured("breast-cancer, AdamW", 0.536, 0.726, 0.06),
    Measured("diabetes, SGD", 0.284, 0.865, 0.15, is_accuracy=False),
    Measured("diabetes, AdamW", 0.292, 0.855, -0.57, is_accuracy=False),
    Measured("banking77, MiniLM, AdamW", 0.365, 0.788, -0.10),
    Measured("trec, MiniLM, AdamW", 0.481, 0.805, 0.04),
    Measured("clinc150, MiniLM, AdamW", 0.175, 0.895, 0.13),
    Measured("cifar100, ResNet-20, AdamW", 0.059, 0.956, 0.91),
)
