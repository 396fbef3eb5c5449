# ruff: noqa: INP001 - a script: run by path
"""Run the numerically sensitive tests as other machines would: the settings of tests/elsewhere.toml, one after another.

    python scripts/elsewhere.py              every setting
    python scripts/elsewhere.py thr spa      those with one of these words in their name
    python scripts/elsewhere.py --all ...    every test of the project under them

Says which settings were tried and what came of each. Ends with 1 if a test failed under any of them, or if one has
no effect here: a process under it says what it sees (`--seen` shows that), and it must be what the table says.
"""

import argparse
import locale
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import getproxies

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "elsewhere.toml"
LEFT_OUT = (".*", "__pycache__", "runs", "site")
LAST = 3
"""Lines of pytest's that are shown for a setting under which all tests pass."""


@dataclass(frozen=True)
class Setting:
    """One other machine."""

    name: str
    tests: Sequence[str]
    seen: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    locale: Sequence[str] = ()
    from_copy: str | None = None


def settings() -> list[Setting]:
    """The table, with what it leaves open filled in."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [Setting(**{"tests": table["tests"], **setting}) for setting in table["setting"]]


def filled_in(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The variables for this machine: numpy refuses to go without what the processor does not have."""
    features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    given = {"features": " ".join(features), "python": str(Path(sys.executable).parent), "folder": str(folder)}
    return {name: value.format(**given) for name, value in environment.items()}


def passes(setting: Setting, arguments: Sequence[str]) -> bool:
    """Run the tests under a setting that has an effect; what pytest says is shown in full only if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        root = ROOT
        if setting.from_copy is not None:
            root = Path(folder) / setting.from_copy
            shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT))
        if setting.locale:
            made_locale(Path(folder), *setting.locale)
        changed = filled_in(setting.environment, Path(folder))
        environment = os.environ | {"PYTHONPATH": str(root / "src")} | changed
        print(f"\n{setting.name}: {changed or setting.from_copy}", flush=True)
        if other := without_effect(setting, root, environment):
            print(f"It has no effect here: {other}", flush=True)
            return False
        run = started([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments], root, environment)
    lines = run.stdout.splitlines()
    print("\n".join(lines if run.returncode else lines[-LAST:]), flush=True)
    return run.returncode == 0


def started(command: Sequence[str], root: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The process that has come to its end."""
    return subprocess.run(  # noqa: S603 - our own tests
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def made_locale(folder: Path, name: str, language: str, characters: str) -> None:
    """A locale of another country, which few machines have: `LOCPATH` leads to it."""
    command = ["localedef", "-i", language, "-f", characters, str(folder / name)]
    if made := subprocess.run(command, capture_output=True, text=True, check=False).returncode:  # noqa: S603 - our own
        print(f"localedef ended with {made}: the locale {name} cannot be made here", flush=True)


def without_effect(setting: Setting, root: Path, environment: Mapping[str, str]) -> str:
    """What a process under the setting sees otherwise than the table says; nothing where it takes effect."""
    said = started([sys.executable, str(root / "scripts" / "elsewhere.py"), "--seen"], root, environment).stdout
    seen = dict(re.findall(r"^seen (\S+): (.*)$", said, flags=re.MULTILINE))
    # These two say it only in lines of their own.
    for name, words in {"onednn": r"^onednn_verbose,.*,cpu,isa:(.*)$", "mkl": r"^MKL_VERBOSE .* CNR:(\S+)"}.items():
        if found := re.search(words, said, flags=re.MULTILINE):
            seen[name] = found[1]
    return ", ".join(
        f"{name} is {seen.get(name, said)!r} where {value!r} was asked for"
        for name, value in setting.seen.items()
        if seen.get(name) != value
    )


def show_seen() -> None:
    """What this process sees of the machine that it is to take this one for."""
    import numba.core.registry  # noqa: PLC0415 - only where it is asked for
    import threadpoolctl  # noqa: PLC0415
    import torch  # noqa: PLC0415

    with torch.backends.mkl.verbose(1), torch.backends.mkldnn.verbose(1):
        torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3))
        torch.ones(50, 50) @ torch.ones(50, 50)
    locale.setlocale(locale.LC_ALL, "")
    seen = {
        "torch": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "numpy": " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])),
        "openblas": " ".join({one.get("architecture", "") for one in threadpoolctl.threadpool_info()}).strip(),
        "numba": numba.core.registry.cpu_target.target_context.codegen().magic_tuple()[1],
        "half": f"{0.5:n}",
        "encoding": locale.getencoding(),
        "zone": time.tzname[0],
        "home": "can be made" if can_be_made(Path.home()) else "cannot be made",
        "proxy": getproxies().get("https"),
        "folder": ROOT.name,
        "chromium": shutil.which("chromium") or shutil.which("chromium-browser"),
    }
    for name, value in seen.items():
        print(f"seen {name}: {value}")


def can_be_made(folder: Path) -> bool:
    """Whether there is such a directory, or it could be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def main() -> None:
    """Try them and say what came of it."""
    parser = argparse.ArgumentParser(description="Run the tests as other machines would.")
    parser.add_argument("words", nargs="*", help="only settings with one of these words in their name")
    parser.add_argument("--all", action="store_true", help="every test, not only the sensitive ones")
    parser.add_argument("--workers", default="2", metavar="N", help="tests at a time")
    parser.add_argument("--seen", action="store_true", help="only show what a process sees of this machine")
    given = parser.parse_args()
    if given.seen:
        return show_seen()
    chosen = [one for one in settings() if not given.words or any(word in one.name for word in given.words)]
    if not chosen:
        parser.error(f"words must be in the name of a setting: {'; '.join(one.name for one in settings())}")
    if missing := sorted({test for one in chosen for test in one.tests if not (ROOT / test).exists()}):
        parser.error(f"{TABLE.name} must name tests that exist, got {', '.join(missing)}")
    print(f"numpy {np.__version__}, {len(chosen)} settings", flush=True)
    results = {}
    for setting in chosen:
        side_by_side = ("--numprocesses", given.workers, "--max-worker-restart", "0", "--dist", "loadfile")
        results[setting.name] = passes(setting, [*side_by_side, *(() if given.all else setting.tests)])
    print("\nTried:")
    for name, is_good in results.items():
        print(f"  {'passed' if is_good else 'FAILED'}  {name}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
