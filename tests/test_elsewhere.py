import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import running_chromium

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
        assert setting.seen, setting.name


@pytest.mark.parametrize(("said", "is_good"), [("Haswell", True), ("Zen", False), (None, False)])
def test_a_setting_without_effect_is_a_failure(elsewhere, monkeypatch, capsys, tmp_path, said, is_good):
    table = tmp_path / "elsewhere.toml"
    table.write_text(
        'tests = ["tests/conftest.py"]\n[[setting]]\nname = "old"\nseen = { mkl = "AUTO", blas = "Haswell" }\n'
    )
    seen = "" if said is None else f"MKL_VERBOSE SGEMM 363.46us CNR:AUTO Dyn:1\nseen blas: {said}\n"
    calls = []

    def started(command, root, environment):
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, seen if "--seen" in command else "1 passed")

    monkeypatch.setattr(elsewhere, "started", started)
    monkeypatch.setattr(elsewhere, "TABLE", table)
    monkeypatch.setattr(sys, "argv", ["elsewhere.py"])
    with pytest.raises(SystemExit) as ended:
        elsewhere.main()
    assert ended.value.code == (not is_good)
    assert len(calls) == 1 + is_good  # under a setting that does nothing, the tests would show nothing
    shown = capsys.readouterr().out
    assert ("1 passed" in shown) == ("passed  old" in shown) == is_good
    assert ("Zen" in shown) == (said == "Zen")


def test_a_process_says_what_it_sees(elsewhere, monkeypatch, capfd):
    monkeypatch.setattr("locale.setlocale", lambda *given: None)  # this process keeps its own
    elsewhere.show_seen()
    shown = capfd.readouterr().out
    for setting in elsewhere.settings():
        for name in setting.seen:
            assert {"mkl": "CNR:", "onednn": "isa:"}.get(name, f"seen {name}: ") in shown


def test_without_chromium_one_line_says_what_is_left_out_and_why(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(pytest.skip.Exception) as left_out, running_chromium():
        pass
    (line,) = str(left_out.value).splitlines()
    assert "chromium" in line
