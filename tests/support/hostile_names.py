"""A page with a name in every place that would do harm if it were taken for markup."""

from dataclasses import replace

import numpy as np

from gradorder_lab.figures import Curve, Figure, Panel, Table
from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import Effect
from gradorder_lab.runs.summary import Band
from gradorder_lab.show import page as page_module
from gradorder_lab.show.chapters import Block
from gradorder_lab.show.page import page_of

HOSTILE = "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


def hostile_page(full_summary):
    ones = np.ones(3)
    curve = Curve(HOSTILE, {"epoch": ones}, Band(ones, ones, ones), 2)
    panel = Panel(HOSTILE, (curve,), missing=(HOSTILE,))
    figure = Figure("hostile", HOSTILE, HOSTILE, (panel,), 1, "synthetic", HOSTILE, {"epoch": HOSTILE})
    page = page_of(replace(full_summary, environments=({HOSTILE: HOSTILE},)))
    table = Table("table", HOSTILE, HOSTILE, (HOSTILE,), ((HOSTILE,),), "synthetic")
    blocks = tuple(Block(one.name, HOSTILE, one, ("synthetic",)) for one in (figure, table))
    section = replace(page.sections[0], title=HOSTILE, blocks=blocks)
    effect = Effect(0.1, 0.0, 0.2, 1.0, 3)
    cell = Cell((HOSTILE,), HOSTILE, (HOSTILE,), "lower", effect)
    untested = Cell((HOSTILE,), HOSTILE, ("b",), "lower", effect, untested=HOSTILE)
    claim = Claim("C1", HOSTILE, (cell, untested), note=HOSTILE, brief=HOSTILE)
    claims = (page_module._claim_row(claim, (), (), None),)
    return replace(page, sections=(section,), claims=claims)
