"""The warnings of a sampler. Each is given once per sampler."""

import torch

from gradorder.errors import warn

_FITTED = 0.25
"""The share of the mean loss below which `Unlearned` skips an example."""

_NEAR_FLOOR = 1.25
"""Losses up to this multiple of the smallest one are near it."""

_FAR_FROM_FLOOR = 2.0
"""The largest loss must be at least this multiple of the smallest one, or the model has not learned anything yet."""


class Notices:
    """Warns where training goes on, but not as its user may expect: what happened, and what to do.

    Args:
        start_epoch: the first ordered epoch of the sampler. If it is 0, that epoch has no losses of an earlier one.
    """

    def __init__(self, start_epoch: int = 0) -> None:
        self._given: set[str] = set()
        self._start_epoch = start_epoch

    def no_scores(self, epoch: int, ordering: object, keep: float) -> None:
        """An ordered epoch begins without scores."""
        part = "" if keep == 1 else f", although keep is {keep:g}"
        self._warn(
            "no_scores",
            f"epoch {epoch} is random and complete{part}: {ordering} orders by scores, and there are none. "
            f"{self._how_to_give_scores}",
        )

    def steps_changed(self, epoch: int, num_steps: int, announced: int) -> None:
        """An epoch has another number of steps than `num_steps` returned."""
        self._given.add("no_scores")  # this says it, too
        self._warn(
            f"steps_changed {epoch}",
            f"epoch {epoch} has {num_steps} steps, but num_steps returned {announced}. A learning-rate schedule built "
            "on that number ends too early or too late. Without scores an epoch is random and complete. "
            f"{self._how_to_give_scores}",
        )

    def scores_discarded(self, epoch: int, num_steps: int, num_delivered: int, num_discarded: int) -> None:
        """The steps of an epoch do not match its batches."""
        self._warn(
            "scores_discarded",
            f"epoch {epoch} delivered {num_delivered} batches, but step was called {num_steps} times. The scores of "
            f"{num_discarded} examples may belong to other examples and are discarded. Call step once per batch, "
            "without losses for a batch that you skip. If the loader has drop_last=True, give drop_last to the sampler "
            "instead",
        )

    def beyond_the_end(self, epoch: int, epochs: int) -> None:
        """An epoch is planned after the last one of the run."""
        self._warn(
            "beyond_the_end",
            f"epoch {epoch} is beyond the end of the run: the sampler was built with epochs={epochs}, and the first "
            "epoch is 0. Its progress stays 1, so a learning rate that follows it, as with go.ProgressLR, stays at its "
            "final value. Build the sampler with the number of epochs that you train",
        )

    def epoch_repeated(self, epoch: int) -> None:
        """Training uses an epoch again."""
        self._warn(
            "epoch_repeated",
            f"epoch {epoch} is trained on again, in the same order: call set_epoch(epoch) before each epoch",
        )

    def length_varies(self, steps: int, total: int | None) -> None:
        """The length of the loader is asked for before training, and later epochs have another one."""
        if total is None:
            instead = (
                "how many steps the run takes is known only at its end. Let the learning rate follow its progress "
                "instead: go.ProgressLR(optimizer, sampler), also with go.one_cycle() or go.warmup_cosine() as factor"
            )
        else:
            instead = f"all epochs together have {total} steps, which sampler.num_steps(0, sampler.epochs) returns"
        self._warn(
            "length_varies",
            f"len(loader) is {steps}, the steps of epoch 0. Later epochs may be shorter, so a learning-rate schedule "
            f"over epochs * len(loader) steps would not reach its end: {instead}",
        )

    def floor(self, losses: torch.Tensor) -> None:
        """The losses of most examples lie just above a smallest loss that is far from zero, as smoothed losses do."""
        smallest = float(losses.min())
        is_fitted = smallest < _FITTED * float(losses.double().mean())  # then such examples are skipped as they should
        if smallest <= 0 or is_fitted or float(losses.max()) < _FAR_FROM_FLOOR * smallest:
            return
        num_near = int((losses <= _NEAR_FLOOR * smallest).sum())
        if num_near > len(losses) / 2:
            self._warn(
                "floor",
                f"no loss given to step is below {smallest:.3g}, and {num_near} of {len(losses)} are close to it, so "
                "no example is skipped. Fitted examples should have losses near 0. Give step the plain loss of each "
                "example: without label smoothing, and without a penalty added to it",
            )

    @property
    def _how_to_give_scores(self) -> str:
        later = " and build the sampler with start_epoch=1" if self._start_epoch == 0 else ""
        return (
            f"Pass scores to set_epoch, or give the losses of each batch to step: sampler.step(losses.detach()){later}"
        )

    def _warn(self, key: str, message: str) -> None:
        if key not in self._given:
            self._given.add(key)
            warn(message)
