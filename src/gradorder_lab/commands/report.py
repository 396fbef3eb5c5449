"""`gradorder report`: the page with every figure and verdict."""

from pathlib import Path

from gradorder_lab.runs import shipped
from gradorder_lab.show.page import Page, page_of
from gradorder_lab.show.writing import write


def report(out: Path) -> Path:
    """Write the page into `out` and return its path."""
    return write(page_in(out), out)


def page_in(out: Path) -> Page:
    """Of the runs in this directory, with what is shipped beside them; without runs, of what is shipped."""
    return page_of(shipped.summary_of(out), shipped.beside(out))
