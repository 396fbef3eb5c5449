"""What rows name: commit, host, processor and go."""

import platform
import subprocess

import pytest

import gradorder
from gradorder_lab.errors import LabError
from gradorder_lab.runs import origin
from gradorder_lab.runs.origin import check_shippable, facts


def git(directory, *arguments):
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with the package and a file of results, committed."""
    for name in ("src/gradorder/__init__.py", "results/rows.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("1")
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init"], ["add", "."], [*who, "commit", "-m", "first"]):
        git(tmp_path, *command)
    monkeypatch.setattr(gradorder, "__file__", str(tmp_path / "src" / "gradorder" / "__init__.py"))
    return tmp_path


def head(checkout):
    return git(checkout, "rev-parse", "HEAD")[:12]


def test_a_checkout_is_named_by_its_commit(checkout):
    assert facts()["commit"] == head(checkout)


def test_changed_code_marks_it(checkout):
    (checkout / "src" / "gradorder" / "__init__.py").write_text("2")
    assert facts()["commit"] == f"{head(checkout)}-dirty"


def test_new_results_do_not_mark_it(checkout):
    """Rows join a file of the checkout while the benchmark runs: the later ones are still of the same code."""
    (checkout / "results" / "rows.csv").write_text("2")
    assert facts()["commit"] == head(checkout)


def test_an_installed_package_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(gradorder, "__file__", str(tmp_path / "lib" / "gradorder" / "__init__.py"))
    assert facts()["commit"] is None


def test_a_repository_without_commits_has_none(tmp_path, monkeypatch):
    git(tmp_path, "init")
    monkeypatch.setattr(gradorder, "__file__", str(tmp_path / "src" / "gradorder" / "__init__.py"))
    assert facts()["commit"] is None


def test_a_host_is_a_hash_and_a_go_is_this_invocation():
    found = facts()
    assert found["go"] == facts()["go"]
    assert platform.node() not in str(found.values())
    assert len(found["host"]) == len(found["go"]) == 12


def test_the_processor_is_named_in_full(tmp_path, monkeypatch):
    lines = "processor: 0\nmodel name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\nstepping\t: 1\n\nprocessor: 1\n"
    monkeypatch.setattr(origin.Path, "read_text", lambda _: lines)
    assert origin._machine().endswith("AMD EPYC, family 25, model 17, stepping 1")


def test_only_rows_that_say_where_they_come_from_are_shipped():
    found = facts() | {"commit": "0123456789ab"}
    check_shippable(found)
    for changes in ({"commit": "0123456789ab-dirty"}, {"commit": None}, {"go": ""}, {"host": None}):
        with pytest.raises(LabError, match="shipped"):
            check_shippable(found | changes)
