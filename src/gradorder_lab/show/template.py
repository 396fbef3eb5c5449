"""Templates, and the parts that every page is made of."""

import base64
from importlib import resources
from importlib.resources.abc import Traversable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

_TEMPLATES = "templates"


def page_parts() -> dict[str, str]:
    """Style sheet and script of every page, and plotly, packed as it is kept: the browser unpacks it."""
    plotly = base64.b64encode(_file("plotly-basic.min.js.gz").read_bytes()).decode()
    return {"style": _own_text("page.css"), "script": _own_text("page.js"), "plotly": plotly}


def template(name: str) -> Template:
    """One of ours, in which whatever is put is escaped."""
    environment = Environment(
        loader=PackageLoader(__package__, _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template(name)


def _own_text(name: str) -> Markup:
    """A style sheet or a script of ours, as it is."""
    return Markup(_file(name).read_text(encoding="utf-8"))  # noqa: S704 - our own files, nothing from data


def _file(name: str) -> Traversable:
    return resources.files(__package__).joinpath(_TEMPLATES, name)
