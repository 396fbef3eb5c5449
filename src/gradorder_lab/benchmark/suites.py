"""The tasks that the field's methods are compared on, each with a grid that has random reshuffling's best rate inside.

A suite is an entry of `SUITES`, a task an entry of a suite; `gradorder benchmark --suite NAME` runs it. All data are
public.
"""

from dataclasses import dataclass, replace
from itertools import chain

from gradorder_lab.benchmark.task import Task
from gradorder_lab.methods import BASELINE, RANDOM_STRATIFIED, RECOMMENDED, REFEREE

_LARGE = 5  # seeds

_SGD = (0.01, 0.03, 0.1, 0.3)
_ADAMW = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def _with_both_optimizers(task: Task) -> tuple[Task, Task]:
    """The task with SGD with momentum, and with AdamW."""
    sgd = replace(task, name=f"{task.name}, SGD")
    name = f"{task.name}, AdamW"
    return sgd, replace(task, name=name, optimizer="AdamW", step_sizes=_ADAMW, weight_decay=0.01)


A9A = Task("a9a", "a9a", "2-layer", epochs=10, step_sizes=(0.03, 0.1, 0.3, 1.0), searches_methods=False)
W8A = Task("w8a", "w8a", "2-layer", epochs=10, step_sizes=_SGD, searches_methods=False)
CALIFORNIA = Task(
    "california-housing",
    "california-housing",
    "2-layer",
    epochs=15,
    step_sizes=(0.003, 0.01, 0.03),  # 0.1 diverges
    losses="gradorder:squared_error",
    searches_methods=False,
)
DIGITS = Task("digits", "digits", "2-layer", epochs=30, batch_size=32, step_sizes=_SGD)
NOISY_DIGITS = replace(DIGITS, name="digits, 20% noisy labels", wrong_labels=0.2)
BREAST_CANCER = Task("breast-cancer", "breast-cancer", "2-layer", epochs=30, batch_size=32, step_sizes=_SGD)
DIABETES = Task(
    "diabetes",
    "diabetes",
    "2-layer",
    epochs=30,
    batch_size=32,
    step_sizes=(0.001, 0.003, 0.01, 0.03),
    losses="gradorder:squared_error",
)
_TABLES = (A9A, W8A, CALIFORNIA, DIGITS, NOISY_DIGITS, BREAST_CANCER, DIABETES)

_MINILM = Task(
    "banking77, MiniLM, AdamW",
    "banking77",
    "minilm",
    epochs=4,
    batch_size=32,
    step_sizes=(1e-4, 3e-4, 1e-3),
    weight_decay=0.01,
    optimizer="AdamW",
    seeds=_LARGE,
    searches_methods=False,
)
FINE_TUNING = (
    _MINILM,
    replace(_MINILM, name="trec, MiniLM, AdamW", data="trec"),
    replace(_MINILM, name="clinc150, MiniLM, AdamW", data="clinc150"),
    replace(
        _MINILM,
        name="cifar100, ResNet-20, AdamW",
        data="cifar100-features",
        model="resnet20-top",
        epochs=5,
        step_sizes=(1e-3, 3e-3, 1e-2),
    ),
)

_CIFAR10_FULL = Task(
    "cifar10, resnet18, 30 epochs",
    "cifar10",
    "resnet18-full",
    epochs=30,
    step_sizes=(0.02, 0.05, 0.1, 0.2),
    weight_decay=5e-4,
    crops=True,
    mixed_precision=True,
    seeds=_LARGE,
    searches_methods=False,
)
CIFAR10_GPU = (_CIFAR10_FULL, replace(_CIFAR10_FULL, name="cifar10, resnet18, 100 epochs", epochs=100))
"""All 50,000 images, for a GPU: `gradorder benchmark --device cuda --suite cifar10`."""

MNIST = Task("mnist, 2-layer", "mnist", "2-layer", epochs=10, searches_methods=False)
FASHION_MNIST = replace(MNIST, name="fashion-mnist, 2-layer", data="fashion-mnist")
NOISY_LABELS = replace(FASHION_MNIST, name=f"{FASHION_MNIST.name}, 20% noisy labels", wrong_labels=0.2)
RARE_CLASSES = replace(FASHION_MNIST, name=f"{FASHION_MNIST.name}, rare classes", rarest=0.02)

CONFIRMATION = (*chain.from_iterable(_with_both_optimizers(task) for task in _TABLES), *FINE_TUNING)
"""Run once. Learning rates were tried beforehand only on held-out parts of a9a and California housing."""

FOUR_OLDER = tuple(chain.from_iterable(map(_with_both_optimizers, (MNIST, FASHION_MNIST, NOISY_LABELS, RARE_CLASSES))))
"""The default was tuned on held-out parts of Fashion-MNIST, and looked at on all four."""


@dataclass(frozen=True)
class Suite:
    """Tasks, and the methods that are compared on them unless others are named."""

    tasks: tuple[Task, ...]
    methods: tuple[str, ...] = REFEREE


SUITES = {
    "confirmation": Suite(CONFIRMATION),
    "older": Suite(FOUR_OLDER),
    "cifar10": Suite(CIFAR10_GPU, (BASELINE, RANDOM_STRATIFIED, RECOMMENDED, "InfoBatch")),
}
"""No task is in two suites."""

EVERY = tuple(chain.from_iterable(suite.tasks for suite in SUITES.values()))
"""All tasks of all suites."""


def methods_for(task: Task) -> tuple[str, ...]:
    """The methods of the task's suite."""
    return next((suite.methods for suite in SUITES.values() if task in suite.tasks), REFEREE)
