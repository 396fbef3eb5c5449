import os

import hypothesis
import pytest
import torch

# Derandomised in CI, so that what is green stays green; at home every run looks at new cases.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=3000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
