import io
from dataclasses import replace

from rich.console import Console

from gradorder_lab.judge.claims import Claim, Comparison
from gradorder_lab.judge.effects import Effect
from gradorder_lab.paper import cifar, experiment
from gradorder_lab.runs.summary import Summary
from gradorder_lab.show import terminal


def shown(table, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(terminal.table(table))
    return out.getvalue()


def test_a_table_is_shown_as_it_is():
    table = experiment.Table("t", "A [title]", "c", ("name", "value"), (("[bold]x", "1"), ("y", "2")), "e")
    lines = [line.split() for line in shown(table).splitlines()]
    assert lines == [["A", "[title]"], ["name", "value"], ["[bold]x", "1"], ["y", "2"]]


def test_the_cifar_table_stands_beside_the_paper_s_in_80_columns(monkeypatch):
    monkeypatch.setattr(cifar, "_size", lambda *_: "cpu")
    table, settings = cifar.cifar_tables("cifar10", Summary({}, ()))
    text = shown(table)
    assert "…" not in text
    for name, numbers in cifar.PAPER["cifar10"].items():
        (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
        assert [float(number) for number in line.split()[-4:]] == list(numbers)
    assert "5,000 training images, 30 epochs, ordered from epoch 21" in table.caption
    assert not terminal.is_short(settings)


def claim(name, low, high, num_seeds):
    effect = Effect((low + high) / 2, low, high, 1.0, num_seeds)
    return Claim(name, "a claim", (Comparison("here", "a - b", "a reading", 0, "lower", effect),))


def test_what_was_run_here_stands_beside_what_was_run_before():
    here = [claim("C1", -0.3, -0.1, 10), claim("C2", -0.3, 0.2, 10), claim("C3", 0.1, 0.3, 10)]
    before = [claim(name, -0.3, -0.1, 100) for name in ("C1", "C2", "C3")]
    out = io.StringIO()
    Console(file=out, width=100).print(terminal.both(here, before))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "C1 reproduced 10 reproduced 100 they agree" in lines
    assert "C2 inconclusive 10 reproduced 100 one or both cannot say" in lines
    assert "C3 not reproduced 10 reproduced 100 they differ" in lines


def test_a_claim_says_in_how_many_readings_it_holds_and_why_one_does_not_count():
    far_off = Comparison("here", "a - b", "first", 0, "lower", None, "the warm-up leaves 39% of F")
    stands_in = claim("C1", -0.3, -0.1, 10).comparisons[0]
    out = io.StringIO()
    terminal.show_claim(Console(file=out, width=200), Claim("C5", "a claim", (far_off, replace(stands_in, rank=1))))
    assert "C5 reproduced (holds in 1 of 1 readings): a claim" in out.getvalue()
    assert "the first reading does not count: the warm-up leaves 39% of F" in out.getvalue()
