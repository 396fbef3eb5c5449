"""The page as a file."""

import os
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from gradorder_lab import shipped
from gradorder_lab.report import forest, headline, readable
from gradorder_lab.report.figure_data import figure_data
from gradorder_lab.report.headline import TIME_TO_TARGET, time_to_target_table
from gradorder_lab.report.page import Page, command_for, page_of
from gradorder_lab.statistics import MARGIN, POINTS_MARGIN
from gradorder_lab.summary import Summary

FILE_NAME = "index.html"
_TEMPLATES = "templates"


def write(summary: Summary, out: Path) -> Path:
    """Write the page into `out`, whole or not at all, and return its path."""
    text = render(page_of(summary, time_to_target_table(shipped.find_file(TIME_TO_TARGET))))
    out.mkdir(parents=True, exist_ok=True)
    path = out / FILE_NAME
    unfinished = out / f".{FILE_NAME}-{os.getpid()}"
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def render(page: Page, *, live_version: str | None = None, whole: bool = True) -> str:
    """The page as HTML. Whatever comes from data is escaped: by the template, and within JSON by `tojson`.

    Args:
        page: what stands on it.
        live_version: of a page that asks its server for newer versions of itself; None for a page on its own.
        whole: without it plotly is left out, for a page that has it already.
    """
    environment = Environment(
        loader=PackageLoader(__package__, _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template("page.html.j2").render(
        page=page,
        data=figure_data(page.figures),
        ticks=forest.TICKS,
        margin=readable.percent(MARGIN).removeprefix("+"),
        points_margin=POINTS_MARGIN,
        negligible=readable.NEGLIGIBLE,
        measures=headline.MEASURES,
        quantity=readable.quantity,
        command_for=command_for,
        benchmark_command=headline.BENCHMARK_COMMAND,
        style=_own("page.css"),
        script=_own("page.js"),
        live_script=_own("live.js"),
        live_version=live_version,
        plotly=_plotly() if whole else "",
    )


def _plotly() -> Markup:
    return _trusted(get_plotlyjs().replace("</script", r"<\/script").replace("<!--", r"<\!--"))


def _own(name: str) -> Markup:
    return _trusted(resources.files(__package__).joinpath(_TEMPLATES, name).read_text(encoding="utf-8"))


def _trusted(text: str) -> Markup:
    return Markup(text)  # noqa: S704 - only our own files and plotly's come here, nothing from data
