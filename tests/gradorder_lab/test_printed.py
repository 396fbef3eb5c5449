import io

from rich.console import Console

from gradorder_lab import printed, tables
from gradorder_lab.recipes import cifar
from gradorder_lab.summary import Summary


def shown(table, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(printed.table(table))
    return out.getvalue()


def test_a_table_is_shown_as_it_is():
    table = tables.Table("t", "A [title]", "c", ("name", "value"), (("[bold]x", "1"), ("y", "2")), "e")
    lines = [line.split() for line in shown(table).splitlines()]
    assert lines == [["A", "[title]"], ["name", "value"], ["[bold]x", "1"], ["y", "2"]]


def test_the_cifar_table_stands_beside_the_paper_s_in_80_columns(monkeypatch):
    monkeypatch.setattr(cifar, "_size", lambda *_: "cpu")
    (table,) = cifar.tables("cifar10", Summary({}, ()))
    text = shown(table)
    assert "…" not in text
    for name, numbers in cifar.PAPER["cifar10"].items():
        (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
        assert [float(number) for number in line.split()[-4:]] == list(numbers)
    assert "5,000 training images, 30 epochs, ordered from epoch 21" in table.caption
