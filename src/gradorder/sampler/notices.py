"""What a sampler says, once, where training goes on but not as its user expects."""

import warnings


class Notices:
    """Each of these is a warning that says what happened and what to do; a second time it is not repeated."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def no_scores(self, epoch: int, ordering: object, keep: float) -> None:
        """An ordered epoch begins, and there is nothing to order it by."""
        part = "" if keep == 1 else f", although keep is {keep:g}"
        self._say(
            "no_scores",
            f"epoch {epoch} is random and complete{part}: {ordering} orders by scores, and there are none. Pass scores "
            "to set_epoch, or give the losses of each batch to step and begin a later start_epoch",
        )

    def steps_changed(self, epoch: int, num_steps: int, expected: int) -> None:
        """The epoch is longer or shorter than a schedule was told."""
        self._said.add("no_scores")  # this says it too
        self._say(
            f"steps_changed {epoch}",
            f"epoch {epoch} has {num_steps} steps, not the {expected} that num_steps counted, so a step-size schedule "
            "built on that count ends at another place: without scores an epoch is random and complete. Pass scores to "
            "set_epoch, or build the sampler with a later start_epoch",
        )

    def left_early(self, epoch: int, num_used: int, num_steps: int, num_forgotten: int) -> None:
        """Another epoch is planned before this one was used up."""
        if num_forgotten:
            scores = (
                f"the scores of {num_forgotten} examples of it are forgotten, as they may be those of others: the "
                "loader was ahead of training, or a batch was skipped without step, and nobody can tell. With "
                "sampler.loader(...) and a step for every batch, or with step(scores, indices=...), they are kept"
            )
        else:
            scores = "examples that did not come keep their old scores"
        self._say(
            "left_early",
            f"epoch {epoch} was left after {num_used} of its {num_steps} steps: {scores}. If every batch was trained "
            "on, step was not called for each of them, or the loader has drop_last=True: then give drop_last to the "
            "sampler instead",
            depth=6,
        )

    def beyond_the_end(self, epoch: int, epochs: int) -> None:
        """An epoch is planned that the run was not said to have."""
        self._say(
            "beyond_the_end",
            f"epoch {epoch} is beyond the end of the run: the sampler was built with epochs={epochs}, and the first "
            "epoch is 0. Its progress stays 1, so a step size that follows it, as with go.ProgressLR, stays at its "
            "end, most often 0. Build it with the epochs that are trained, and count them once each",
            depth=4,
        )

    def doubtful_left_out(self, epoch: int, num_examples: int) -> None:
        """A state is made while nobody knows whether the scores of the epoch are right."""
        self._say(
            "doubtful_left_out",
            f"the state leaves out the scores of {num_examples} examples of epoch {epoch}, as they may be those of "
            "others: training had got more than one batch before the first step. Was the first batch skipped without "
            "step? Call step for every batch, without scores for one that is skipped; where something else fetches "
            "batches ahead, step(scores, indices=...) checks which examples they are",
        )

    def step_missing(self, epoch: int, batch: int) -> None:
        """Batches were handed out for which `step` was never called."""
        self._say(
            "step_missing",
            f"more batches of epoch {epoch} were handed out before step number {batch} than were used: was a batch "
            "skipped without step, or does the loader not have batch_size=sampler.loader_batch_size? From here on the "
            "scores of this epoch are not remembered, as they may belong to other examples. Call step for every batch, "
            "without scores for one that is skipped; step(scores, indices=...) checks which examples they are",
        )

    def epoch_repeated(self, epoch: int) -> None:
        """Training goes through an epoch again."""
        self._say(
            "epoch_repeated",
            f"epoch {epoch} is trained on again, in the same order: call set_epoch(epoch) before each epoch",
        )

    def _say(self, what: str, message: str, depth: int = 5) -> None:
        """A warning at the line of the user's that is `depth` calls away."""
        if what not in self._said:
            self._said.add(what)
            warnings.warn(message, stacklevel=depth)
