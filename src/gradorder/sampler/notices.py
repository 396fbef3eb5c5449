"""The warnings of a sampler. Each is given once per sampler."""

import warnings


class Notices:
    """Warns where training goes on, but not as its user may expect: what happened, and what to do."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def no_scores(self, epoch: int, ordering: object, keep: float) -> None:
        """An ordered epoch begins without scores."""
        part = "" if keep == 1 else f", although keep is {keep:g}"
        self._warn(
            "no_scores",
            f"epoch {epoch} is random and complete{part}: {ordering} orders by scores, and there are none. Pass scores "
            "to set_epoch, or give the losses of each batch to step and set start_epoch=1",
        )

    def steps_changed(self, epoch: int, num_steps: int, announced: int) -> None:
        """An epoch has another number of steps than `num_steps` returned."""
        self._given.add("no_scores")  # this says it, too
        self._warn(
            f"steps_changed {epoch}",
            f"epoch {epoch} has {num_steps} steps, but num_steps returned {announced}. A learning-rate schedule built on "
            "that number ends too early or too late. Without scores an epoch is random and complete: pass scores to "
            "set_epoch, or build the sampler with a later start_epoch",
        )

    def scores_discarded(self, epoch: int, num_steps: int, num_delivered: int, num_discarded: int) -> None:
        """The steps of an epoch do not match its batches."""
        self._warn(
            "scores_discarded",
            f"epoch {epoch} delivered {num_delivered} batches, but step was called {num_steps} times. The scores of "
            f"{num_discarded} examples may belong to other examples and are discarded. Call step once per batch, without "
            "losses for a batch that you skip. If the loader has drop_last=True, give drop_last to the sampler instead",
            depth=4,
        )

    def beyond_the_end(self, epoch: int, epochs: int) -> None:
        """An epoch is planned after the last one of the run."""
        self._warn(
            "beyond_the_end",
            f"epoch {epoch} is beyond the end of the run: the sampler was built with epochs={epochs}, and the first "
            "epoch is 0. Its progress stays 1, so a learning rate that follows it, as with go.ProgressLR, stays at its "
            "final value. Build the sampler with the number of epochs that you train",
            depth=3,
        )

    def epoch_repeated(self, epoch: int) -> None:
        """Training uses an epoch again."""
        self._warn(
            "epoch_repeated",
            f"epoch {epoch} is trained on again, in the same order: call set_epoch(epoch) before each epoch",
            depth=3,
        )

    def _warn(self, key: str, message: str, depth: int = 4) -> None:
        """Warn at the user's line, `depth` calls up."""
        if key not in self._given:
            self._given.add(key)
            warnings.warn(message, stacklevel=depth + 1)
