"""What is learned: data, network, optimizer, and how long plain training takes on it."""

from dataclasses import dataclass

from gradorder_lab.benchmark.measure import ACCURACY, LOSS, Measure
from gradorder_lab.training.method import Method
from gradorder_lab.training.recipe import OptimizerName, Training
from gradorder_lab.training.split import HELD_OUT, DataSettings

_TEXTS_AND_CIFAR = ("cifar", "sst2", "banking77", "trec", "clinc150")
_SMALL_TEST_SETS = ("digits", "breast-cancer")
_LARGEST_SHIFT = 4  # pixels
_WIDTHS = {"resnet20": 8, "resnet18": 8}  # what two cores can train


@dataclass(frozen=True)
class Task:
    """A learning task and the length of its plain training.

    Args:
        name: what it is called in tables.
        data: one of `DATA_NAMES`, or an .npz file with arrays x_train, y_train, x_test, y_test: its path, or the name
            that `own.content` gives it.
        model: one of `MODELS`, or "module:function", a function (classes, inputs) -> module, `inputs` the shape of one
            example.
        epochs: of plain training.
        batch_size: of every method.
        step_sizes: what the search may choose from, for every method.
        num_train: class-balanced part of the training images; all for None.
        momentum: of SGD.
        weight_decay: of the optimizer.
        wrong_labels: the share of training labels that are replaced.
        rarest: the share of its training examples that the last class is left with; the others in between.
        flips: whether training images are mirrored, half of the time.
        crops: whether training images are mirrored and also shifted by up to 4 pixels.
        mixed_precision: whether the network runs in bfloat16 where it can; on a CPU it never does.
        losses: "module:function", a function (model, batch) -> (B,); cross-entropy for None.
        variant: what tells it apart from a task that is otherwise the same.
        optimizer: "SGD" or "AdamW".
        seeds: how often the benchmark runs each method: more where a run is cheap.
        searches_methods: whether the benchmark searches a learning rate for every method, or only for random
            reshuffling, where a run is expensive.
    """

    name: str
    data: str
    model: str
    epochs: int
    batch_size: int = 128
    step_sizes: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)
    num_train: int | None = None
    momentum: float = 0.9
    weight_decay: float = 0.0
    wrong_labels: float = 0.0
    rarest: float = 1.0
    flips: bool = False
    losses: str | None = None
    variant: str = ""
    optimizer: OptimizerName = "SGD"
    crops: bool = False
    mixed_precision: bool = False
    seeds: int = 10
    searches_methods: bool = True

    def __post_init__(self) -> None:
        if not self.has_classes and (self.wrong_labels > 0 or self.rarest < 1):
            raise ValueError(
                "wrong_labels and rarest must be 0 and 1 where no example has a class, "
                f"got {self.wrong_labels} and {self.rarest}"
            )

    @property
    def has_classes(self) -> bool:
        """Whether every example is of one class: what balanced batches, and methods that look at logits, ask for."""
        return self.losses is None

    @property
    def margin(self) -> float:
        """The largest deficit that counts as equal to plain training: percent of the loss, or points of accuracy."""
        if self.measure == LOSS:
            return 1.0
        return 0.5 if self.data.startswith((*_TEXTS_AND_CIFAR, *_SMALL_TEST_SETS)) else 0.1

    @property
    def measure(self) -> Measure:
        """What runs are judged by: only cross-entropy tells right from wrong."""
        return ACCURACY if self.losses is None else LOSS

    def training(self, method: Method, step_size: float, *, budget: float = 1.0, validates: bool = False) -> Training:
        """The network recipe; with `validates` it is measured on a held-out part, and the test set is unseen.

        The learning rate is the same function of progress for every method: half a cosine over the epochs, whether or
        not the number of steps is known in advance.
        """
        return Training(
            data=DataSettings(
                self.data,
                num_train=self.num_train,
                held_out=HELD_OUT if validates else 0.0,
                wrong_labels=self.wrong_labels,
                rarest=self.rarest,
                has_classes=self.has_classes,
            ),
            model=self.model,
            width=_WIDTHS.get(self.model),
            method=method,
            epochs=self.epochs,
            length=method.length(self.epochs, budget),
            budget=budget,
            batch_size=self.batch_size,
            schedule="cosine by epoch",
            step_size=step_size,
            optimizer=self.optimizer,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            crop=_LARGEST_SHIFT if self.crops else 0 if self.flips else None,
            mixed_precision=self.mixed_precision,
            losses=self.losses,
            measured={"test": "held_out" if validates else "test"},
        )
