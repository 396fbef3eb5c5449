"""Does a run that was killed and resumed see the same examples, and end with the same weights?

Every training of `resume_torch.py` and `resume_trainings.py` is run once without interruption. Then it is killed
(SIGKILL) and resumed, in the second epoch, with 0 and 2 workers, and at the end of the first, on 1 and 2 processes, and
saved on 2 and resumed on 1. torchrun restarts two processes after one was killed, and so does Ray Train if `ray` is
installed (`pip install "ray[train]"`). Rows that results/resume.csv already has of this commit are not made again.

    python benchmarks/resume_matrix.py            # writes results/resume.csv and the tables of docs/resume.md
    python benchmarks/resume_matrix.py --table    # writes only the tables, from results/resume.csv
"""

import argparse
import csv
import importlib.util
import math
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from resume_torch import BATCH, KEEP, SIZE, Run, ray_worker
from resume_trainings import TRAININGS

from gradorder_lab.runs.origin import check_shippable, facts

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "resume.csv"
PAGE = ROOT / "docs" / "resume.md"
MARKS = ("<!-- matrix: begin -->", "<!-- matrix: end -->")
STEPS = SIZE // BATCH
STOPS = {"end of epoch": STEPS, "in the epoch": STEPS + 2}
COMPARED = STEPS + math.ceil(KEEP * STEPS)
"""The steps of the first two epochs at least; with `KEEP`, the second is shorter."""
WORLDS = ((1, 1), (2, 2), (2, 1))
TIMEOUT = 120
RAY_MEMORY = 100 * 2**20
"""Of Ray's object store, in bytes: the trainings put nothing into it."""
RAY_PORTS = ("dashboard-agent-grpc", "dashboard-agent-listen", "runtime-env-agent", "metrics-export")
RAY_VARIABLES = {
    "RAY_AUTH_MODE": "token",  # of the cluster and of those that connect to it
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",  # how soon a death is noticed
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(TIMEOUT),
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
CONTEXT = multiprocessing.get_context("fork")
ELASTIC = (
    "DistributedSampler, batches skipped",
    "gradorder, Shuffled()",
    "gradorder, PlackettLuce(), keep=0.75",
)
"""The trainings in plain torch that torchrun and Ray Train start again."""


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    framework: str
    setting: str
    stop: str
    workers: int
    world: str
    examples: str
    weights: str
    version: str
    torch: str
    commit: str


@dataclass(frozen=True)
class Ended:
    """What a training left behind: its global batches, and its weights if it came to its end."""

    batches: list[Counter[int]]
    weights: list[torch.Tensor] | None


# -------------------------------------------------------------------- running


def run_training(name: tuple[str, str], world: int, folder: Path, workers: int, stop: int | None) -> None:
    """Train on several processes, forked from this one, until they end or are killed."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as meeting:
        processes = [
            CONTEXT.Process(target=_train, args=(name, rank, world, Run(folder, workers, stop), f"{meeting}/file"))
            for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(TIMEOUT)
        for process in processes:
            process.kill()
            process.join()


def _train(name: tuple[str, str], rank: int, world: int, run: Run, meeting: str) -> None:
    log = os.open(run.folder / f"log{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    torch.set_num_threads(1)
    if world > 1:
        os.environ |= _as_torchrun(rank, world)
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    TRAININGS[name](run)


def _as_torchrun(rank: int, world: int) -> dict[str, str]:
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "GLOO_SOCKET_IFNAME": "lo"}  # they meet in a file
    return {name: str(number) for name, number in numbers.items()} | address | {"TORCHELASTIC_RUN_ID": "matrix"}


def ended(folder: Path, world: int) -> Ended:
    """Read what the processes wrote down since the last call, and put the slices of each batch together."""
    slices = []
    for rank in range(world):
        path = folder / f"rank{rank}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        slices.append([[int(number) for number in line.strip("[]").split(",")] for line in lines])
        path.unlink(missing_ok=True)
    batches = [Counter(number for part in parts for number in part) for parts in zip(*slices, strict=False)]
    weights = folder / "weights"
    return Ended(batches, torch.load(weights, weights_only=True) if weights.exists() else None)


# -------------------------------------------------------------------- comparing


def outcome(straight: Ended, before: Ended, after: Ended, *, same_world: bool) -> tuple[str, str]:
    """Whether the examples and the weights are those of the run without interruption."""
    if straight.weights is None:
        return "fails", "fails"
    if after.weights is None:
        return "resume fails", "resume fails"
    seen = before.batches + after.batches
    if not same_world:  # other units are dropped, hence other losses order the epochs after the one that is resumed
        return "same" if seen[:COMPARED] == straight.batches[:COMPARED] else "differ", "-"
    examples = "same" if seen == straight.batches else "differ"
    are_equal = all(torch.equal(a, b) for a, b in zip(after.weights, straight.weights, strict=True))
    return examples, "same" if are_equal else "differ"


def cells_of(name: tuple[str, str], workers: int, row: Callable[..., Cell]) -> Iterator[Cell]:
    """All stops and numbers of processes of one training."""
    with tempfile.TemporaryDirectory() as place:
        straights = {}
        for world in (1, 2):
            folder = Path(place) / f"straight{world}"
            run_training(name, world, folder, workers, None)
            straights[world] = ended(folder, world)
        for stop, step in STOPS.items():
            if workers and stop == "end of epoch":
                continue  # no worker has prefetched anything
            killed = {}
            for world in (1, 2):
                folder = Path(place) / f"{stop}{world}"
                run_training(name, world, folder, workers, step)
                killed[world] = ended(folder, world)
            for first, second in WORLDS:
                folder = Path(place) / f"{stop}{first}to{second}"
                shutil.copytree(Path(place) / f"{stop}{first}", folder)
                run_training(name, second, folder, workers, None)
                found = outcome(straights[first], killed[first], ended(folder, second), same_world=first == second)
                world_name = str(first) if first == second else f"{first} to {second}"
                yield row(*name, stop, workers, world_name, *found)


def elastic_cells(setting: str, workers: int, row: Callable[..., Cell]) -> Iterator[Cell]:
    """Two processes that torchrun starts again after one of them was killed."""
    with tempfile.TemporaryDirectory() as place:
        straight = _elastic(setting, Path(place) / "straight", workers, 0)
        resumed = _elastic(setting, Path(place) / "killed", workers, STOPS["in the epoch"])
    found = outcome(straight, Ended([], None), resumed, same_world=True)
    yield row("torchrun", setting, "elastic restart", workers, "2", *found)


def _elastic(setting: str, folder: Path, workers: int, stop: int) -> Ended:
    folder.mkdir()
    program = Path(__file__).with_name("resume_torch.py")
    options = ["--standalone", "--nproc-per-node=2", "--max-restarts=1", "--monitor-interval=0.2"]
    given = [str(program), setting, str(folder), str(workers), str(stop)]
    # Without the first variable, torchrun may hand the addresses of dead processes to their successors.
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", *options, *given]
    subprocess.run(  # noqa: S603 - our own program
        command, env=os.environ | variables, capture_output=True, check=False, timeout=3 * TIMEOUT
    )
    return ended(folder, 2)


def ray_cells(setting: str, row: Callable[..., Cell]) -> Iterator[Cell]:
    """Ray Train starts its workers again after one of them was killed."""
    for world in (1, 2):
        with tempfile.TemporaryDirectory() as place:
            straight = _in_ray(setting, Path(place) / "straight", world, 0)
            resumed = _in_ray(setting, Path(place) / "killed", world, STOPS["in the epoch"])
        found = outcome(straight, Ended([], None), resumed, same_world=True)
        yield row("ray", setting, "restart", 0, str(world), *found)


@contextmanager
def ray_cluster() -> Iterator[None]:
    """Start Ray on this machine, connect to it, and end it.

    `ray.init()` would start it as well, but with free ports: then Ray waits 15 seconds for its agents to tell their
    ports, which a busy machine exceeds. With given ports it does not wait.
    """
    os.environ |= RAY_VARIABLES
    import ray  # noqa: PLC0415 - only if it is installed

    port, *others = _free_ports(1 + len(RAY_PORTS))
    options = ["--head", "--block", "--num-cpus=2", f"--object-store-memory={RAY_MEMORY}", f"--port={port}"]
    options += [f"--{name}-port={other}" for name, other in zip(RAY_PORTS, others, strict=True)]
    options += ["--no-monitor", "--include-log-monitor=False", "--include-dashboard=False"]
    command = [str(Path(sys.executable).with_name("ray")), "start", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - Ray's own program
        try:
            _connect(ray, port)
            yield
        finally:
            ray.shutdown()
            process.terminate()


def _connect(ray: Any, port: int) -> None:  # noqa: ANN401 - a module
    """Wait until Ray has started."""
    for attempt in range(5):
        try:
            ray.init(address=f"{ray.util.get_node_ip_address()}:{port}", log_to_driver=False)
        except ConnectionError:  # after 20 seconds of its own
            if attempt == 4:  # noqa: PLR2004 - the last one
                raise
        else:
            return


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(number)]
        return [server.getsockname()[1] for server in servers]


def _in_ray(setting: str, folder: Path, world: int, stop: int) -> Ended:
    from ray import train  # noqa: PLC0415 - only if it is installed
    from ray.train.torch import TorchTrainer  # noqa: PLC0415

    folder.mkdir()
    run = train.RunConfig(storage_path=str(folder / "ray"), failure_config=train.FailureConfig(max_failures=1))
    config = {"setting": setting, "folder": str(folder), "stop": stop}
    scaling = train.ScalingConfig(num_workers=world)
    with suppress(Exception), _at_most(3 * TIMEOUT):  # what it left behind tells
        TorchTrainer(ray_worker, train_loop_config=config, scaling_config=scaling, run_config=run).fit()
    return ended(folder, world)


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError in this thread: Ray has no time limit for a run."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"Ray Train did not end within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -------------------------------------------------------------------- showing

HEADER = "| | workers | 1 process | 2 processes | saved on 2, resumed on 1 |"


def tables(cells: Iterable[Cell]) -> str:
    """One table per framework: a row says for each number of processes what was the same."""
    cells = list(cells)
    parts = []
    for framework in dict.fromkeys(cell.framework for cell in cells):
        own = [cell for cell in cells if cell.framework == framework]
        parts += [f"### {framework} {own[0].version}", "", HEADER, "|---" * 5 + "|"]
        for setting, workers in dict.fromkeys((cell.setting, cell.workers) for cell in own):
            found = [cell for cell in own if (cell.setting, cell.workers) == (setting, workers)]
            worlds = (_summary(cell for cell in found if cell.world == world) for world in ("1", "2", "2 to 1"))
            parts.append(f"| {setting} | {workers} | {' | '.join(worlds)} |")
        parts.append("")
    return "\n".join(parts)


def _summary(cells: Iterable[Cell]) -> str:
    """The worst of all stops."""
    found = list(cells)
    if not found:
        return ""
    worst = {name: _worst([getattr(cell, name) for cell in found]) for name in ("examples", "weights")}
    if "fails" in worst["examples"]:
        return worst["examples"]
    if worst["examples"] == "differ":
        return "other examples"
    return {"same": "**same run**", "differ": "same examples, other weights", "-": "**same examples**"}[
        worst["weights"]
    ]


def _worst(values: list[str]) -> str:
    return next(value for value in ("fails", "resume fails", "differ", "same", "-") if value in values)


def read_cells() -> list[Cell]:
    """The rows of results/resume.csv."""
    with RESULTS.open(newline="", encoding="utf-8") as file:
        return [Cell(**{**row, "workers": int(row["workers"])}) for row in csv.DictReader(file)]  # type: ignore[arg-type]


def write_cells(cells: Iterable[Cell]) -> None:
    """Write results/resume.csv."""
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cell)])
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in cells)


def write_page(cells: Iterable[Cell]) -> None:
    """Replace the tables of the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{tables(cells)}\n{MARKS[1]}{after}", encoding="utf-8")


@cache
def current_commit() -> str:
    """The commit of this checkout, asked for once."""
    return str(facts()["commit"])


def new_row(framework: str, *values: Any) -> Cell:  # noqa: ANN401 - the fields of a cell
    """A cell with the versions that made it."""
    package = {"fabric": "lightning", "torchrun": "torch"}.get(framework, framework)
    versions = (metadata.version(package), metadata.version("torch"), current_commit())
    fields_of_cell: list[Any] = [framework, *values, *versions]
    return Cell(*fields_of_cell)


Group = tuple[str, str, int]
"""A framework, a setting and a number of workers; the cells of a group are made together."""


def all_groups() -> Iterator[Group]:
    """The groups in the order of the tables."""
    for name, workers in product(TRAININGS, (0, 2)):
        yield *name, workers
    for setting, workers in product(ELASTIC, (0, 2)):
        yield "torchrun", setting, workers
    if importlib.util.find_spec("ray") is not None:
        for setting in ELASTIC:
            yield "ray", setting, 0


def cells_of_group(group: Group) -> list[Cell]:
    """Train all that the cells of a group compare."""
    framework, setting, workers = group
    if framework == "ray":
        return list(ray_cells(setting, new_row))
    if framework == "torchrun":
        return list(elastic_cells(setting, workers, new_row))
    return list(cells_of((framework, setting), workers, new_row))


def made(groups: list[Group], jobs: int) -> Iterator[tuple[Group, list[Cell]]]:
    """The cells of the groups, as they are finished; Ray comes last, as it has one cluster for all."""
    with ProcessPoolExecutor(jobs, CONTEXT) as pool:
        futures = {pool.submit(cells_of_group, group): group for group in groups if group[0] != "ray"}
        for future in as_completed(futures):
            yield futures[future], future.result()
    if in_ray := [group for group in groups if group[0] == "ray"]:
        with ray_cluster():
            yield from ((group, cells_of_group(group)) for group in in_ray)


def main() -> None:
    """Fill the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="write only the tables of the page")
    parser.add_argument("--only", default="", help="trainings whose framework or setting contains this; prints only")
    parser.add_argument("--jobs", type=int, default=1, help="groups of cells that are made at the same time")
    chosen = parser.parse_args()
    if chosen.table:
        write_page(read_cells())
        return
    torch.set_num_threads(1)
    if not chosen.only:
        check_shippable(facts())
    done: dict[Group, list[Cell]] = {}
    for cell in [] if chosen.only else read_cells():
        if cell.commit == current_commit():
            done.setdefault((cell.framework, cell.setting, cell.workers), []).append(cell)
    groups = list(all_groups())
    todo = [group for group in groups if chosen.only in " ".join(group[:2]) and group not in done]
    for group, cells in made(todo, chosen.jobs):
        done[group] = cells
        for cell in cells:
            print(*asdict(cell).values(), sep=", ", flush=True)
        if not chosen.only:
            write_cells(cell for group in sorted(done, key=_rank(groups)) for cell in done[group])
    if not chosen.only:
        write_page(read_cells())


def _rank(groups: list[Group]) -> Callable[[Group], int]:
    """The place of a group; rows of Ray stay at the end if it is not installed now."""
    return lambda group: groups.index(group) if group in groups else len(groups)


if __name__ == "__main__":
    main()
