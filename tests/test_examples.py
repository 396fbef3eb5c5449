import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TORCH = ["ordered_torch", "plain_torch"]
FRAMEWORKS = ["ordered_accelerate", "ordered_fabric", "ordered_lightning", "ordered_transformers"]

LANGUAGE = ["language_accelerate", "language_transformers", "language_trl"]


def test_every_example_is_tested():
    assert sorted([*TORCH, *FRAMEWORKS, *LANGUAGE, "ordered_sklearn"]) == [
        path.stem for path in sorted(EXAMPLES.glob("*.py"))
    ]


@pytest.mark.parametrize("name", [*TORCH, "ordered_sklearn"])
def test_the_example_learns(name, capsys):
    assert load(name).main() > 0.9
    assert "test accuracy" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")  # the frameworks' own
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_ends_where_plain_torch_does(name, capsys):
    expected = load("ordered_torch").main(epochs=4)
    assert load(name).main(epochs=4) == expected
    assert f"test accuracy {expected:.3f}" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")  # the frameworks' own
@pytest.mark.parametrize("name", LANGUAGE)
def test_the_language_model_learns(name, capsys):
    assert load(name).main() < 1.5  # guessing: 2.5
    assert "loss" in capsys.readouterr().out


def test_ordering_changes_few_lines():
    plain, ordered = ((EXAMPLES / f"{name}_torch.py").read_text().splitlines()[1:] for name in ("plain", "ordered"))
    new = [line for line in ordered if line.strip() and line not in plain]
    assert len(new) == 6  # an import, the sampler, the loader, the scheduler, set_epoch, step
    assert len([line for line in plain if line not in ordered]) == 2


def test_ordering_wins(capsys):
    """Accuracy within half a point of plain training, for three quarters of the examples."""
    accuracy = {name: load(name).main() for name in TORCH}
    trained = [int(number) for number in re.findall(r"trained on (\d+) examples", capsys.readouterr().out)]
    assert accuracy["ordered_torch"] > accuracy["plain_torch"] - 0.005
    assert sum(trained[:10]) < 0.75 * sum(trained[10:])
