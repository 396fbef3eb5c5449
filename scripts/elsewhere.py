# ruff: noqa: INP001 - a script: run by path
"""Run the numerically sensitive tests as other machines would: the settings of tests/elsewhere.toml, one after another.

    python scripts/elsewhere.py              every setting
    python scripts/elsewhere.py thr spa      those with one of these words in their name
    python scripts/elsewhere.py --all ...    every test of the project under them

Says which settings were tried and what came of each; ends with 1 if a test failed under any of them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
    environment: dict[str, str] = field(default_factory=dict)
    from_copy: str | None = None


def settings() -> list[Setting]:
    """The table, with what it leaves open filled in."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [Setting(**{"tests": table["tests"], **setting}) for setting in table["setting"]]


def filled_in(environment: dict[str, str]) -> dict[str, str]:
    """The variables for this machine: numpy refuses to go without what the processor does not have."""
    features = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    given = {"features": " ".join(features), "python": str(Path(sys.executable).parent)}
    return {name: value.format(**given) for name, value in environment.items()}


def passes(setting: Setting, arguments: Sequence[str]) -> bool:
    """Run the tests under a setting; what pytest says is shown in full only if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        root = ROOT
        if setting.from_copy is not None:
            root = Path(folder) / setting.from_copy
            shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT))
        environment = os.environ | {"PYTHONPATH": str(root / "src")} | filled_in(setting.environment)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments]
        run = subprocess.run(  # noqa: S603 - our own tests
            command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    lines = run.stdout.splitlines()
    print("\n".join(lines if run.returncode else lines[-LAST:]), flush=True)
    return run.returncode == 0


def main() -> None:
    """Try them and say what came of it."""
    parser = argparse.ArgumentParser(description="Run the tests as other machines would.")
    parser.add_argument("words", nargs="*", help="only settings with one of these words in their name")
    parser.add_argument("--all", action="store_true", help="every test, not only the sensitive ones")
    parser.add_argument("--workers", default="2", metavar="N", help="tests at a time")
    given = parser.parse_args()
    chosen = [one for one in settings() if not given.words or any(word in one.name for word in given.words)]
    if not chosen:
        parser.error(f"words must be in the name of a setting: {'; '.join(one.name for one in settings())}")
    if missing := sorted({test for one in chosen for test in one.tests if not (ROOT / test).exists()}):
        parser.error(f"{TABLE.name} must name tests that exist, got {', '.join(missing)}")
    print(f"numpy {np.__version__}, {len(chosen)} settings", flush=True)
    results = {}
    for setting in chosen:
        print(f"\n{setting.name}: {filled_in(setting.environment) or setting.from_copy}", flush=True)
        side_by_side = ("--numprocesses", given.workers, "--dist", "loadfile")
        results[setting.name] = passes(setting, [*side_by_side, *(() if given.all else setting.tests)])
    print("\nTried:")
    for name, is_good in results.items():
        print(f"  {'passed' if is_good else 'FAILED'}  {name}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
