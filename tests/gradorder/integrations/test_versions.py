"""A framework that is too old is refused at import, with what is needed and what is there."""

import importlib
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3] / "pyproject.toml"

OLDEST = {"lightning": "2.5", "accelerate": "1.9", "transformers": "5.3", "trl": "1.16"}


@pytest.mark.parametrize("installed", ["1.8.1", "0.34.2", "1.0rc1"])
def test_an_older_version_is_refused(monkeypatch, installed):
    versions = importlib.import_module("gradorder.integrations.framework")
    monkeypatch.setattr(metadata, "version", lambda package: installed)
    with pytest.raises(ImportError, match=rf"accelerate needs accelerate 1\.9 or newer, and {installed} is installed"):
        versions.check_version("accelerate", "1.9")


@pytest.mark.parametrize("installed", ["1.9.0", "1.10.0", "2.0", "1.9.0.dev0"])
def test_a_newer_version_is_taken(monkeypatch, installed):
    versions = importlib.import_module("gradorder.integrations.framework")
    monkeypatch.setattr(metadata, "version", lambda package: installed)
    versions.check_version("accelerate", "1.9")


@pytest.mark.parametrize("package", OLDEST)
def test_every_plug_in_checks_its_framework(monkeypatch, package):
    name = f"gradorder.integrations.{package}"
    monkeypatch.delitem(sys.modules, name, raising=False)  # put back afterwards
    monkeypatch.setattr(metadata, "version", lambda package: "0.1")
    with pytest.raises(ImportError, match=rf"needs {package} {OLDEST[package]} or newer, and 0\.1 is installed"):
        importlib.import_module(name)


@pytest.mark.parametrize("package", OLDEST)
def test_the_extra_asks_for_the_same_version(package):
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert any(asked.startswith(f"{package}>={OLDEST[package]},<") for asked in extras[package])
