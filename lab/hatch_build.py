# ruff: noqa: INP001 - called by hatchling
"""What the laboratory's wheel and sdist are made of.

In the repository `src` and `results` are beside this directory. In the sdist they are in it, under the same names, so
that a wheel can be built there too.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKED = {
    "sdist": {"src/gradorder_lab": "src/gradorder_lab", "results": "results"},
    "wheel": {"src/gradorder_lab": "gradorder_lab", "results": "gradorder_lab/results"},
}


class Sources(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the package and the results; an editable install has both where they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before each build."""
        if version == "editable":
            return
        here = Path(self.root)
        repository = here if (here / "src").is_dir() else here.parent
        for source, target in PACKED[self.target_name].items():
            build_data["force_include"][str(repository / source)] = target
