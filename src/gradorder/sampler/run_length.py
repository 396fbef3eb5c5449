"""How long a run is, and how much of it is behind."""

from itertools import accumulate

from gradorder.sampler.planner import EpochPlanner


class RunLength:
    """Where each epoch of a run begins and ends, as a part of the whole.

    An epoch takes as much of the run as it has steps. Where some epoch's steps are decided only when it begins, every
    epoch takes the same part.

    Args:
        planner: plans the epochs.
        epochs: of the whole run.
    """

    def __init__(self, planner: EpochPlanner, epochs: int) -> None:
        steps = [planner.known_steps(epoch) for epoch in range(epochs)]
        lengths = [1 if None in steps else number or 0 for number in steps]
        self._starts = [0, *accumulate(lengths)]

    def behind(self, epoch: int, part: float) -> float:
        """The part of the run before this part of an epoch; 1 for every epoch after the last."""
        if epoch >= len(self._starts) - 1:
            return 1.0
        start, end = self._starts[epoch : epoch + 2]
        return (start + part * (end - start)) / self._starts[-1]
