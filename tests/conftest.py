import gc
import importlib
import os
import signal
import sys

# Two workers share two cores: each of them, and what it starts, computes on one. Must be said before torch is loaded.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some machines say that they have AMX, and end a process that multiplies in bfloat16 with it: no test does.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import hypothesis
import pytest

# Derandomised in CI, so that what is green stays green; at home every run looks at new cases.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=10)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=3000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


# A shell that runs the tests in the background has them ignore Ctrl-C, and the processes that they start with them: but
# some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Load torch where tests are run: not where they are only handed out, as the workers would wait for it."""
    if "PYTEST_XDIST_WORKER" in os.environ or not config.getoption("numprocesses", None):
        importlib.import_module("torch_random")
    if "PYTEST_XDIST_WORKER" not in os.environ and (cache := getattr(config, "cache", None)):
        config.pluginmanager.register(Durations(cache))


@pytest.fixture(autouse=True)
def _seeded():
    sys.modules["torch"].manual_seed(0)  # loaded by then, see above


DURATIONS = "durations/files"
"""Seconds by file of the last run, in pytest's cache."""


def pytest_collection_modifyitems(config, items):
    """Start with the files that took longest in the last run, so that no worker waits for one of them at the end.

    One file of the estimators' tests compiles the loops that the others need too. They run last, and find them in
    numba's cache: side by side, two workers would compile all of them twice.
    """
    cache = getattr(config, "cache", None)
    seconds = cache.get(DURATIONS, {}) if cache else {}

    def place(item):
        file = item.location[0]
        if file.endswith("sklearn/test_against_reference.py"):
            return 0, 0
        return 2 if "gradorder/sklearn/" in file else 1, -seconds.get(file, 0)

    items.sort(key=place)


class Durations:
    """Notes the duration of every file, in the process that hands out the tests."""

    def __init__(self, cache):
        self.cache, self.seconds = cache, {}

    def pytest_runtest_logreport(self, report):
        file = report.location[0]
        self.seconds[file] = self.seconds.get(file, 0) + report.duration

    def pytest_sessionfinish(self):
        self.cache.set(DURATIONS, self.cache.get(DURATIONS, {}) | self.seconds)


def pytest_collection_finish():
    # What was loaded is never garbage. Looking through it for some took a third of a second, again and again.
    gc.freeze()
