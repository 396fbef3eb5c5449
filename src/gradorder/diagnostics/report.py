"""A report on the data: labels that look wrong, examples that were never fitted, examples that were fitted first.

A wrong label contradicts the other examples, so its loss stays large for most of training. In the end the model may
fit it, and its last loss is small. So the report ranks examples by the mean loss over all of training. It suspects
labels whose mean loss is larger than that of uniform guessing, ln C for C classes.
"""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from gradorder import checks
from gradorder.diagnostics.history import History
from gradorder.diagnostics.page import Card, page, thumbnail
from gradorder.sampler import OrderedSampler
from gradorder.sampler.labels import Classes

_LISTED = 10
"""The number of examples that a printed report lists in each group."""


def data_report(
    sampler: OrderedSampler,
    dataset: Any = None,  # noqa: ANN401 - any map-style dataset
    *,
    labels: Any = None,  # noqa: ANN401 - anything array-like
    suspect_above: float | None = None,
) -> "DataReport":
    """Return suspected wrong labels, examples that were never fitted, and examples that were fitted first.

    With several processes, call it after `set_epoch` or `state_dict`: both gather the history of all ranks.

    Args:
        sampler: after training. Call `sampler.record_history()` before training and pass all losses to `step`.
        dataset: the examples, for thumbnails and labels; the sampler's dataset if not given.
        labels: one label per example. None or True takes the `targets` or `labels` of the dataset.
        suspect_above: the mean loss above which a label is suspected; ln C for C classes if not given.

    Raises:
        ValueError: no history was recorded, there are neither labels nor `suspect_above`, or the number of labels is
            not the number of examples.

    Example:
        >>> import gradorder as go
        >>> sampler = go.OrderedSampler(4, batch_size=4, ordering=go.Sequential())
        >>> sampler.record_history()
        >>> for epoch in range(3):
        ...     sampler.set_epoch(epoch)
        ...     for _ in sampler.loader():
        ...         sampler.step(torch.tensor([0.1, 2.0, 0.6, 0.8]) / (1 + epoch))
        >>> report = data_report(sampler, labels=[0, 1, 0, 1])
        >>> report.suspects, report.learned_first
        (tensor([1]), tensor([0, 2, 3, 1]))
    """
    history = sampler.history
    if history is None:
        raise ValueError("sampler must have a history: call sampler.record_history() before training")
    data = sampler.dataset if dataset is None else dataset
    num_examples = checks.map_style_length("dataset", data)
    if num_examples != sampler.num_examples:
        raise ValueError(f"dataset must hold the sampler's {sampler.num_examples} examples, got {num_examples}")
    given = None if labels is None or labels is True else _one_per_example(labels, num_examples)
    if suspect_above is None:
        suspect_above = _loss_of_guessing(Classes.given(True if given is None else given, data, num_examples))
    return DataReport(history, data, checks.positive("suspect_above", suspect_above), given)


def _one_per_example(labels: Any, num_examples: int) -> npt.NDArray[Any]:  # noqa: ANN401 - anything array-like
    """Return the labels as an array in the order of the examples; a pandas Series would be indexed by its index."""
    values = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if values.ndim == 0 or len(values) != num_examples:
        raise ValueError(
            f"labels must hold one label per example: expected {num_examples}, got an array of shape {values.shape}"
        )
    return values


def _loss_of_guessing(classes: Classes) -> float:
    if len(classes.counts) == 1:
        raise ValueError(
            f"{classes.source} must hold at least two classes for a bound of ln C on the loss, got one class: "
            "give suspect_above"
        )
    return math.log(len(classes.counts))


@final
@dataclass(frozen=True, eq=False)
class DataReport:
    """The result of `data_report`. `print` shows a summary.

    Args:
        history: losses and margins of every example over training.
        dataset: the examples.
        suspect_above: the mean loss above which a label is suspected.
        labels: one label per example, if given; an array.
    """

    history: History
    dataset: Any
    suspect_above: float
    labels: Any = None

    @property
    def suspects(self) -> torch.Tensor:
        """The indices of examples whose labels may be wrong, the largest mean loss first."""
        return self._worst_first(self.history.mean_loss > self.suspect_above)

    @property
    def never_learned(self) -> torch.Tensor:
        """The indices of examples that were trained on but never fitted, the largest mean loss first."""
        return self._worst_first((self.history.first_learned < 0) & (self.history.visits > 0))

    @property
    def learned_first(self) -> torch.Tensor:
        """The indices of examples that were fitted, by the epoch of the first time, then by mean loss."""
        learned = (self.history.first_learned >= 0).nonzero().flatten()
        learned = learned[self.history.mean_loss[learned].argsort(stable=True)]
        return learned[self.history.first_learned[learned].argsort(stable=True)]

    def _worst_first(self, is_chosen: torch.Tensor) -> torch.Tensor:
        chosen = is_chosen.nonzero().flatten()
        return chosen[self.history.mean_loss[chosen].argsort(descending=True, stable=True)]

    def columns(self) -> dict[str, torch.Tensor]:
        """Return the columns of the history and `is_suspect`, each with one value per example."""
        columns = {each.name: getattr(self.history, each.name) for each in fields(History)}
        return {**columns, "is_suspect": self.history.mean_loss > self.suspect_above}

    def to_pandas(self) -> Any:  # noqa: ANN401 - a DataFrame
        """Return the columns as a pandas DataFrame with one row per example."""
        try:
            import pandas as pd  # type: ignore[import-untyped] # noqa: PLC0415 - only here
        except ModuleNotFoundError as error:
            raise ImportError("DataReport.to_pandas needs pandas; DataReport.columns() does not") from error
        return pd.DataFrame({name: column.numpy() for name, column in self.columns().items()}).rename_axis("example")

    def __str__(self) -> str:
        """A summary with the first few examples of each group."""
        num_seen = int((self.history.visits > 0).sum())
        lines = [f"{num_seen} of {len(self.history.visits)} examples were trained on"]
        for title, examples in self._groups():
            named = ", ".join(map(str, examples[:_LISTED].tolist())) + (", ..." if len(examples) > _LISTED else "")
            lines.append(f"{title}: {len(examples)}" + (f" ({named})" if named else ""))
        return "\n".join(lines)

    def _groups(self) -> list[tuple[str, torch.Tensor]]:
        return [
            ("suspected wrong labels", self.suspects),
            ("never learned", self.never_learned),
            ("learned first", self.learned_first),
        ]

    def write_page(self, path: str | Path, *, at_most: int = 60) -> None:
        """Write an HTML file with the first examples of each group; it loads nothing from the network.

        The page shows thumbnails if Pillow is installed.

        Args:
            path: of the file.
            at_most: the number of examples per group.

        Raises:
            TypeError: an example is neither an image nor a pair that begins with one.
        """
        sections = {title: [self._card(int(i)) for i in examples[:at_most]] for title, examples in self._groups()}
        Path(path).write_text(page(str(self), sections), encoding="utf-8")

    def _card(self, example: int) -> Card:
        given = self.dataset[example]
        label = given[1] if self.labels is None and isinstance(given, tuple | list) and len(given) > 1 else None
        label = label if self.labels is None else self.labels[example]
        history = self.history
        first = int(history.first_learned[example])
        facts = {
            "label": "" if label is None else str(label.item() if isinstance(label, torch.Tensor) else label),
            "mean loss": f"{float(history.mean_loss[example]):.2f}",
            "last loss": f"{float(history.last_loss[example]):.2f}",
            "learned": "never" if first < 0 else f"in epoch {first}",
            "forgotten": f"{int(history.times_forgotten[example])} times",
        }
        return Card(example, thumbnail(given), {name: value for name, value in facts.items() if value})
