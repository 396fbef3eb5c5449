import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def elsewhere(monkeypatch):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("elsewhere", ROOT / "scripts" / "elsewhere.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    spec.loader.exec_module(module)
    return module


def test_the_table_names_tests_that_exist(elsewhere):
    settings = elsewhere.settings()
    assert len({setting.name for setting in settings}) == len(settings) > 5
    for setting in settings:
        assert [test for test in setting.tests if not (ROOT / test).exists()] == [], setting.name


def test_a_test_that_does_not_exist_is_refused(elsewhere, monkeypatch, capsys, tmp_path):
    table = tmp_path / "elsewhere.toml"
    table.write_text('tests = ["tests/conftest.py", "tests/gone.py"]\n[[setting]]\nname = "here"\n')
    monkeypatch.setattr(elsewhere, "TABLE", table)
    monkeypatch.setattr(sys, "argv", ["elsewhere.py"])
    with pytest.raises(SystemExit, match="2"):
        elsewhere.main()
    assert "elsewhere.toml must name tests that exist, got tests/gone.py" in capsys.readouterr().err
