"""Where and on what a run happens. Nothing here may change a row, but for the device and the number of threads."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Workspace:
    """What a run may use.

    Args:
        checkpoints: directory for checkpoints; without it a run that is stopped starts again.
        data: directory with the original files of the data sets.
        device: as torch names it.
        threads: of each process.
    """

    checkpoints: Path | None = None
    data: Path | None = None
    device: str = "cpu"
    threads: int = 1
