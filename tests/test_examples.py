import importlib.util
import io
import re
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@cache
def outcome(name, **settings):
    """What the example returns and what it prints; each is trained once for all tests."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with redirect_stdout(io.StringIO()) as said:
        value = module.main(**settings)
    return value, said.getvalue()


TORCH = ["ordered_torch", "plain_torch"]
FRAMEWORKS = ["ordered_accelerate", "ordered_fabric", "ordered_lightning", "ordered_transformers"]

LANGUAGE = ["language_accelerate", "language_transformers", "language_trl"]
REINFORCEMENT = "prompts_grpo"


def test_every_example_is_tested():
    assert sorted([*TORCH, *FRAMEWORKS, *LANGUAGE, REINFORCEMENT, "ordered_sklearn"]) == [
        path.stem for path in sorted(EXAMPLES.glob("*.py"))
    ]


@pytest.mark.parametrize("name", [*TORCH, "ordered_sklearn"])
def test_the_example_learns(name):
    accuracy, said = outcome(name)
    assert accuracy > 0.9
    assert "test accuracy" in said


@pytest.mark.filterwarnings("ignore")  # the frameworks' own
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_ends_where_plain_torch_does(name):
    expected, _ = outcome("ordered_torch", epochs=4)
    accuracy, said = outcome(name, epochs=4)
    assert accuracy == expected
    assert f"test accuracy {expected:.3f}" in said


@pytest.mark.filterwarnings("ignore")  # the frameworks' own
@pytest.mark.parametrize("name", LANGUAGE)
def test_the_language_model_learns(name):
    loss, said = outcome(name)
    assert loss < 1.5  # guessing: 2.5
    assert "loss" in said


@pytest.mark.filterwarnings("ignore")  # the frameworks' own
def test_reinforcement_learning_learns():
    rate, said = outcome(REINFORCEMENT)
    assert rate > 0.4  # guessing: 0.125
    assert said.count("pass rate") == 6


def test_ordering_wins():
    """Accuracy within half a point of plain training; shorter epochs, and fewer gradients in all."""
    (ordered, ordered_said), (plain, plain_said) = (outcome(name) for name in TORCH)
    assert ordered > plain - 0.005
    shorter, complete = num_trained(ordered_said), num_trained(plain_said)
    assert len(shorter) > len(complete) == 10  # part of the saving pays for further epochs
    assert sum(shorter) / len(shorter) < 0.75 * complete[0]
    assert sum(shorter) < 0.85 * sum(complete)


def num_trained(said):
    """The examples of each epoch."""
    return [int(number) for number in re.findall(r"trained on (\d+) examples", said)]
