import subprocess
import sys

import pytest

import gradorder as go

NAMES = """
GradientNorm LastLayerBound LogitError Loss cross_entropy squared_error gradient_norms per_example_gradients
score_dataset observe_gradient_norms
Ordering Descending Ascending Shuffled ShuffledOnce Sequential PlackettLuce FlipFlop
GradientBalancing InfoBatch Revisiting Undecided WithReplacement BlockShuffled
NonFiniteScoresError IterableDatasetError StepError OrderedSampler Request Order
Selection KeepHardest TopLosses ImportanceSampling SelectiveBackprop SmallestLoss
advise Advice recommended
Constant InversePerStep InverseSqrtPerStep InversePerEpoch InverseSqrtPerEpoch
""".split()


def test_the_public_names_are_there_and_documented():
    assert set(NAMES) <= set(go.__all__)
    for name in go.__all__:
        assert getattr(go, name).__doc__, name


@pytest.mark.slow
def test_importing_needs_torch_and_numpy_only_and_touches_no_random_state():
    code = """
import random, sys
import numpy as np, torch
before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
known = set(sys.modules)
import gradorder
assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
new = {name.split(".")[0] for name in set(sys.modules) - known} - set(sys.stdlib_module_names)
print(sorted(new & {"tqdm", "rich", "typer", "sklearn", "matplotlib", "numba", "gradorder_lab"}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert result.stdout == "[]\n"
