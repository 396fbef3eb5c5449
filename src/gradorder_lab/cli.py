"""The command line: `gradorder list`, `reproduce`, `benchmark`, `compare` and `report`.

Exit codes: 0 done, 1 something the user can mend (said in one line), 2 wrong usage, 130 interrupted.
"""

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

_STARTED = time.perf_counter()
_CORES = os.cpu_count() or 1

app = typer.Typer(add_completion=False, no_args_is_help=True)


class SizeName(StrEnum):
    """How much is run."""

    mini = "mini"
    cpu = "cpu"
    paper = "paper"


class DeviceName(StrEnum):
    """Where the networks are trained."""

    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("gradorder-lab"))
        raise typer.Exit


Jobs = Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one per core; on a GPU, 1")]
Data = Annotated[
    Path | None, typer.Option(help="Directory with the data sets' original files; else they are downloaded.")
]
Device = Annotated[DeviceName, typer.Option(help="Where the networks are trained.")]
_VERSION = typer.Option("--version", help="Say which version this is.", callback=_show_version, is_eager=True)


@app.callback()
def describe(*, _: Annotated[bool, _VERSION] = False) -> None:
    """Decide which examples SGD sees, and in what order: the paper's experiments."""


@app.command(name="list")
def list_experiments() -> None:
    """List the experiments, the claims that they test, and how many runs they take."""
    from gradorder_lab.show import terminal  # noqa: PLC0415 - torch is slow to load, and --help should answer at once

    terminal.show_experiments()


@app.command()
def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Which ones; all of them for none.")
    ] = None,
    *,
    size: Annotated[SizeName, typer.Option(help="How much: mini takes minutes, cpu what two cores can do.")] = (
        SizeName.mini
    ),
    seeds: Annotated[int | None, typer.Option(min=1, help="Paired seeds, instead of the size's own number.")] = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Directory for rows, page and figures; what is there is kept.")] = Path(
        "runs"
    ),
    data: Data = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler to run on, instead of --jobs.")
    ] = None,
    device: Device = DeviceName.cpu,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each process; another number, other bits.")] = 1,
) -> None:
    """Run the paper's experiments, judge its claims, write the page. Run again on the same --out, it goes on."""
    _check_writable(out)
    with _one_line_errors():
        from gradorder_lab.commands import reproduce as command  # noqa: PLC0415

        settings = command.Reproduction(
            size.value, seeds, _processes(jobs, device), cluster, data, device.value, threads
        )
        try:
            command.reproduce(experiments or [], out, settings)
        except command.Interrupted as stopped:
            _interrupted(f"{stopped.num_finished} of {stopped.num_asked} runs are finished and kept in {out}.")


@app.command()
def report(
    out: Annotated[
        Path, typer.Option(help="Directory with the rows of `reproduce`; the page is written there.")
    ] = Path("runs"),
) -> None:
    """Write the page with every figure and verdict, from the rows in --out, or else from the shipped results."""
    _check_writable(out)
    with _one_line_errors():
        from gradorder_lab.commands import report as command  # noqa: PLC0415

        print(f"Page: {command.report(out)}")  # noqa: T201


@app.command()
def compare(
    *,
    dataset: Annotated[
        str,
        typer.Option(
            help="mnist, fashion-mnist, cifar10, cifar100, terrain, sst2, a9a, w8a, california-housing, digits, "
            "breast-cancer, diabetes, or an .npz file of your own with arrays x_train, y_train, x_test, y_test. The "
            "first two with -mini: the part that is shipped, also taken where there is no network."
        ),
    ] = "fashion-mnist",
    model: Annotated[
        str,
        typer.Option(
            help="2-layer, 7-layer, resnet20, resnet18, strided, transformer, bag-of-words, or "
            "module:function of your own, called with the number of classes and the shape of one example."
        ),
    ] = "2-layer",
    losses: Annotated[
        str | None,
        typer.Option(
            help="module:function of your own, called with model and batch (inputs, targets), that gives the loss of "
            "each example: for regression and all else that is no classification. Runs are then judged by the loss.",
            show_default="cross-entropy",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Beside random reshuffling; again for another. A wrong one lists them all. module:name for an "
            "ordering or a selection of your own."
        ),
    ] = None,
    budget: Annotated[
        list[float] | None, typer.Option(help="Parts of plain training's cost, beside 1.", show_default="0.6, 0.8")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Of plain training.")] = 10,
    batch_size: Annotated[int, typer.Option(min=1, help="Of every method.")] = 128,
    step_size: Annotated[
        list[float] | None,
        typer.Option(help="What every method's search may choose from.", show_default="0.02, 0.05, 0.1, 0.2"),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Paired seeds; with fewer than 5 nothing can be told from noise.")
    ] = 5,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Directory for rows and page; what is there is kept.")] = Path(
        "runs/compare"
    ),
    data: Data = None,
    device: Device = DeviceName.cpu,
    probe_only: Annotated[bool, typer.Option("--probe-only", help="Probe, and leave it at that.")] = False,
) -> None:
    """Will it pay? A probe of model and data, then methods against random reshuffling: cost to the same accuracy."""
    _check_writable(out)
    with _one_line_errors():
        from gradorder_lab.benchmark.task import Task  # noqa: PLC0415
        from gradorder_lab.commands import compare as command  # noqa: PLC0415

        defaults = Task(f"{dataset}, {model}", dataset, model, epochs, batch_size, losses=losses)
        task = replace(defaults, step_sizes=tuple(step_size or defaults.step_sizes))
        budgets = tuple(budget or command.ComparisonRequest.budgets)
        startup = time.perf_counter() - _STARTED
        asked = command.ComparisonRequest(
            task,
            tuple(method or ()),
            budgets,
            seeds,
            _processes(jobs, device),
            data,
            device.value,
            probe_only,
            startup,
        )
        try:
            command.compare(asked, out)
        except KeyboardInterrupt:
            _interrupted(f"what is finished is kept in {out}.")


@app.command()
def benchmark(
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK]...", help="Names; a wrong one lists them all.")
    ] = None,
    *,
    suite: Annotated[
        str, typer.Option(help="The tasks, where none is named. A wrong one lists them all.")
    ] = "confirmation",
    method: Annotated[
        list[str] | None, typer.Option(help="Again for another; all for every one.", show_default="those of the suite")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Paired seeds, instead of the task's own number.")] = None,
    step_size: Annotated[float | None, typer.Option(help="For all methods, instead of a search.")] = None,
    search_only: Annotated[bool, typer.Option("--search-only", help="Find the step sizes only.")] = False,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Directory for rows; what is there is kept.")] = Path("runs/benchmark"),
    data: Data = None,
    device: Device = DeviceName.cpu,
    results: Annotated[
        Path | None, typer.Option(help="Rows to ship: those there are not run again, new ones join them.")
    ] = None,
) -> None:
    """Compare the field's methods on a suite of tasks: with random reshuffling, and with a shorter run of it."""
    _check_writable(out)
    with _one_line_errors():
        from gradorder_lab.commands import benchmark as command  # noqa: PLC0415

        asked = command.BenchmarkRequest(
            tuple(tasks or ()),
            suite,
            tuple(method or ()),
            seeds,
            step_size,
            search_only,
            _processes(jobs, device),
            data,
            device.value,
            results,
        )
        try:
            command.benchmark(asked, out)
        except KeyboardInterrupt:
            _interrupted(f"what is finished is kept in {out}.")


def _processes(jobs: int | None, device: DeviceName) -> int:
    """Runs that share a GPU slow each other down and may not fit into its memory."""
    return jobs or (_CORES if device is DeviceName.cpu else 1)


def _interrupted(kept: str) -> NoReturn:
    """Say how to go on."""
    again = shlex.join(["gradorder", *sys.argv[1:]])
    print(f"Interrupted: {kept}\nTo go on from there: {again}", file=sys.stderr)  # noqa: T201
    sys.exit(130)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    from gradorder_lab.errors import LabError  # noqa: PLC0415

    try:
        yield
    except LabError as error:
        sys.exit(f"gradorder: {error}")


def _check_writable(out: Path, option: str = "--out") -> None:
    """Fail before the work, not after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".write-test-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        sys.exit(f"gradorder: {option} must be a directory that can be written to, got {out}: {error.strerror}")


def main() -> None:
    """Entry point of `gradorder`."""
    # SIGTERM ends like Ctrl-C: workers are told to leave, and nothing is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
