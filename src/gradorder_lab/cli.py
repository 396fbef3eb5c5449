"""The command line: `gradorder reproduce`."""

import os
import sys
from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:
    sys.exit('gradorder: the command line needs the laboratory: pip install "gradorder[lab]"')

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def describe() -> None:
    """Decide which examples SGD sees, and in what order: the paper's experiments."""


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Directory for the plot and the rows.")] = Path("runs"),
    seeds: Annotated[int, typer.Option(min=1, help="Paired seeds per method.")] = 5,
) -> None:
    """Run the paper's four algorithms side by side with random reshuffling."""
    _check_writable(out)
    from gradorder_lab import reproduction  # noqa: PLC0415 - torch is slow to load, and --help should answer at once

    reproduction.reproduce(out, seeds)


def _check_writable(out: Path) -> None:
    """Fail before the work, not after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".write-test-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        sys.exit(f"gradorder: --out must be a directory that can be written to, got {out}: {error.strerror}")


def main() -> None:
    """Entry point of `gradorder`."""
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
