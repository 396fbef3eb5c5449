"""The page as a file."""

from pathlib import Path

from gradorder_lab.judge.effects import MARGINS, MOVED, SMALLEST
from gradorder_lab.runs.whole_file import write_whole
from gradorder_lab.show.chapters import command_for
from gradorder_lab.show.evidence import MARKS
from gradorder_lab.show.figure_data import figure_data
from gradorder_lab.show.page import Page
from gradorder_lab.show.template import page_parts, template

PAGE = "index.html"


def write(page: Page, out: Path) -> Path:
    """Write the page into `out`, whole or not at all, and return its path."""
    return write_whole(out / PAGE, render_page(page))


def render_page(page: Page) -> str:
    """The page as HTML. Whatever comes from data is escaped: by the template, and within JSON by `tojson`."""
    return template("page.html.j2").render(
        page=page,
        data=figure_data(page.figures),
        margins=MARGINS,
        marks=MARKS,
        smallest=SMALLEST,
        moved=MOVED,
        command_for=command_for,
        **page_parts(),
    )
