import gc
import importlib
import os
import signal
import sys
from pathlib import Path

# Two workers share two cores: each of them, and what it starts, computes on one. Must be said before torch is loaded.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some machines say that they have AMX, and end a process that multiplies in bfloat16 with it: no test does.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import hypothesis
import pytest
from addresses import has_address

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


@pytest.fixture(autouse=True)
def _seeded():
    sys.modules["torch"].manual_seed(0)  # loaded by then, see above


TESTS = Path(__file__).parent
LONGEST = (
    "test_docs.py",
    "gradorder_lab/show/test_browser.py",
    "gradorder_lab/runs/test_sweep.py",
    "gradorder/sklearn/test_against_reference.py",
    "gradorder/sklearn/test_compilation.py",
    "gradorder_lab/commands/test_command_line.py",
    "gradorder/orderings/test_plackett_luce.py",
    "gradorder/norms/test_zoo_of_other_kinds.py",
    "gradorder/distributed/test_ranks.py",
    "gradorder_lab/show/test_writing.py",
    "gradorder/norms/test_zoo.py",
    "gradorder/integrations/test_transformers.py",
    "test_examples.py",
    "gradorder/sampler/test_golden.py",
    "gradorder/orderings/test_contract.py",
    "gradorder/norms/test_rules.py",
    "gradorder/sampler/test_resume.py",
    "gradorder/integrations/test_lightning.py",
)
"""Files that take longest: they come first, so that at the end no worker waits for one of them."""


def pytest_collection_modifyitems(items):
    if missing := [name for name in LONGEST if not (TESTS / name).exists()]:
        raise pytest.UsageError(f"LONGEST must name files of tests, got {missing}")
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    if named := [item.nodeid for item in items if has_address(item.nodeid)]:
        raise pytest.UsageError(f"a name must be the same in every worker: use ids=without_address for {named[0]}")


def pytest_collection_finish():
    # What was loaded is never garbage. Looking through it for some took a third of a second, again and again.
    gc.freeze()
