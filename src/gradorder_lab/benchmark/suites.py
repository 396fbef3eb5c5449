"""The tasks that the field's methods are compared on, each with a grid that has random reshuffling's best step inside.

A suite is an entry of `SUITES`, a task an entry of a suite; `gradorder benchmark --suite NAME` runs it.

`TUNED_ON` are the tasks that the default's numbers may be chosen on, by held-out parts of their training sets; the
others are looked at once, at the end. `terrain` and `snippets` are made by this project, all others are public data.
"""

from dataclasses import replace
from itertools import chain

from gradorder_lab.benchmark.task import Task

_LARGE = 5  # seeds

TERRAIN = Task("terrain, 2-layer", "terrain", "2-layer", epochs=10, step_sizes=(0.05, 0.1, 0.2, 0.4))
MNIST = Task("mnist, 2-layer", "mnist", "2-layer", epochs=10)
FASHION_MNIST = Task("fashion-mnist, 2-layer", "fashion-mnist", "2-layer", epochs=10)
WRONG_LABELS = replace(FASHION_MNIST, name=f"{FASHION_MNIST.name}, 20% wrong labels", wrong_labels=0.2)
RARE_CLASSES = replace(FASHION_MNIST, name=f"{FASHION_MNIST.name}, rare classes", rarest=0.02)
STEP_TOO_LARGE = replace(
    FASHION_MNIST, name=f"{FASHION_MNIST.name}, step too large", step_sizes=(0.2,), variant="step too large"
)
"""Four times what the search finds."""

MNIST_DEEP = Task("mnist, 7-layer", "mnist", "7-layer", epochs=6, seeds=_LARGE)
FASHION_MNIST_DEEP = Task("fashion-mnist, 7-layer", "fashion-mnist", "7-layer", epochs=6, seeds=_LARGE)
SNIPPETS = Task(
    "snippets, transformer",
    "snippets",
    "transformer",
    epochs=10,
    batch_size=64,
    step_sizes=(0.05, 0.1, 0.2),
    seeds=_LARGE,
)
SST2 = Task("sst2, bag-of-words", "sst2", "bag-of-words", epochs=8, step_sizes=(0.2, 0.4, 0.8, 1.6))
SHAKESPEARE = Task(
    "tinyshakespeare, causal",
    "tinyshakespeare",
    "causal",
    epochs=8,
    batch_size=64,
    step_sizes=(0.2, 0.4, 0.8, 1.6),
    seeds=_LARGE,
)
CIFAR10_SMALL = Task(
    "cifar10 (5,000), resnet20",
    "cifar10",
    "resnet20",
    epochs=6,
    batch_size=64,
    step_sizes=(0.01, 0.02, 0.05),
    num_train=5000,
    weight_decay=5e-4,
    seeds=_LARGE,
)

CIFAR10_FEATURES = Task(
    "cifar10-features, 2-layer",
    "cifar10-features",
    "2-layer",
    epochs=10,
    step_sizes=(0.005, 0.01, 0.02, 0.05),
    seeds=_LARGE,
)
CIFAR10 = Task(
    "cifar10 (20,000), strided",
    "cifar10",
    "strided",
    epochs=20,
    step_sizes=(0.02, 0.05, 0.1),
    num_train=20_000,
    weight_decay=5e-4,
    flips=True,
    seeds=_LARGE,
)

_SGD = (0.01, 0.03, 0.1, 0.3)
_ADAMW = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def _with_both_optimizers(task: Task) -> tuple[Task, Task]:
    """The task with SGD with momentum, and with AdamW."""
    adamw = {"name": f"{task.name}, AdamW", "optimizer": "AdamW", "step_sizes": _ADAMW, "weight_decay": 0.01}
    return replace(task, name=f"{task.name}, SGD"), replace(task, **adamw)


A9A = Task("a9a", "a9a", "2-layer", epochs=10, step_sizes=(0.03, 0.1, 0.3, 1.0))
W8A = Task("w8a", "w8a", "2-layer", epochs=10, step_sizes=_SGD)
CALIFORNIA = Task(
    "california-housing",
    "california-housing",
    "2-layer",
    epochs=15,
    step_sizes=(0.003, 0.01, 0.03),  # 0.1 diverges
    losses="gradorder:squared_error",
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
)
CIFAR10_GPU = (_CIFAR10_FULL, replace(_CIFAR10_FULL, name="cifar10, resnet18, 100 epochs", epochs=100))
"""All 50,000 images, for a GPU: `gradorder benchmark --device cuda --suite cifar10`."""

TUNED_ON = (TERRAIN, FASHION_MNIST, SST2)
TUNED_DATA = frozenset(task.data for task in TUNED_ON)
"""Data that the default's numbers were chosen on. Every task with such data is reported apart from the others."""

ALL = (
    TERRAIN,
    MNIST,
    FASHION_MNIST,
    WRONG_LABELS,
    RARE_CLASSES,
    STEP_TOO_LARGE,
    MNIST_DEEP,
    FASHION_MNIST_DEEP,
    SNIPPETS,
    SST2,
    CIFAR10_SMALL,
    SHAKESPEARE,
    CIFAR10_FEATURES,
    CIFAR10,
)
"""Cheapest first."""

CONFIRMATION = (*chain.from_iterable(_with_both_optimizers(task) for task in _TABLES), *FINE_TUNING)

"""Run once. Only the grids of a9a and California housing were tried beforehand, on held-out parts of training sets."""

FOUR_OLDER = tuple(
    chain.from_iterable(
        (task, _with_both_optimizers(task)[1]) for task in (MNIST, FASHION_MNIST, WRONG_LABELS, RARE_CLASSES)
    )
)
"""Tasks of the first suite, with AdamW too."""

SUITES = {"small": ALL, "confirmation": CONFIRMATION, "older": FOUR_OLDER, "cifar10": CIFAR10_GPU}
"""Name -> its tasks; every name of a task means one task in all suites."""

EVERY = tuple(dict.fromkeys(task for suite in SUITES.values() for task in suite))
"""All tasks of all suites."""
