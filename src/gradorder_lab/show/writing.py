"""The page as a file."""

import base64
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from gradorder_lab.judge.effects import MARGINS, MOVED, SMALLEST
from gradorder_lab.runs.whole_file import write_whole
from gradorder_lab.show.benchmark import COST_TICKS, cost_place
from gradorder_lab.show.chapters import command_for
from gradorder_lab.show.evidence import MARKS
from gradorder_lab.show.figure_data import figure_data
from gradorder_lab.show.page import Page

PAGE = "index.html"
_TEMPLATES = "templates"


def write(page: Page, out: Path) -> Path:
    """Write the page into `out`, whole or not at all, and return its path."""
    return write_whole(out / PAGE, render_page(page))


def render_page(page: Page) -> str:
    """The page as HTML. Whatever comes from data is escaped: by the template, and within JSON by `tojson`."""
    return template("page.html.j2").render(
        page=page,
        data=figure_data(page.figures),
        cost_ticks=COST_TICKS,
        cost_place=cost_place,
        margins=MARGINS,
        marks=MARKS,
        smallest=SMALLEST,
        moved=MOVED,
        command_for=command_for,
        style=own_text("page.css"),
        script=own_text("page.js"),
        # packed as it is kept: the browser unpacks it
        plotly=base64.b64encode(_file("plotly-basic.min.js.gz").read_bytes()).decode(),
    )


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


def own_text(name: str) -> Markup:
    """A style sheet or a script of ours, as it is."""
    return Markup(_file(name).read_text(encoding="utf-8"))  # noqa: S704 - our own files, nothing from data


def _file(name: str) -> Traversable:
    return resources.files(__package__).joinpath(_TEMPLATES, name)
