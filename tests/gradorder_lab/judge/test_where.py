"""The sentence after a verdict, from cells whose pattern is known."""

from itertools import product

from gradorder_lab.judge.claims import Cell, Claim
from gradorder_lab.judge.effects import Effect
from gradorder_lab.judge.where import verdict_text, where_it_holds


def points(mean):
    return Effect(mean, mean - 0.01, mean + 0.01, 1.0, 10, unit="points")


def claim_of(mean_of, **settings):
    """Two nets, two sorts, two readings; `mean_of` gives the effect of each."""
    labels = product(("2-layer", "7-layer"), ("sort within", "sort first"), ("dealt", "contiguous"))
    cells = [Cell(one[:2], "ours - theirs", one[2:], "lower", points(mean_of(*one))) for one in labels]
    return Claim("C0", "", tuple(cells), **settings)


def test_it_names_what_separates_the_cells():
    by_sort = where_it_holds(claim_of(lambda _, sort, __: -1.0 if sort == "sort within" else 2.0))
    assert by_sort.startswith("sort within: 4 of 4")
    assert "sort first: 0 of 4" in by_sort
    assert "+2.00 points of error" in by_sort
    by_reading = where_it_holds(claim_of(lambda _, __, reading: -1.0 if reading == "dealt" else 0.8))
    assert by_reading.startswith("dealt: 4 of 4")
    assert "net" not in by_reading


def test_a_mixed_group_says_how_many_fail():
    told = where_it_holds(claim_of(lambda net, sort, _: -1.0 if sort == "sort within" or net == "7-layer" else 2.0))
    assert "4 of 4" in told
    assert "2 of 4, 2 fail" in told


def test_all_and_none():
    assert where_it_holds(claim_of(lambda *_: -1.0)).startswith("Everywhere (ours − theirs: −1.00 points")
    assert where_it_holds(claim_of(lambda net, *_: 1.0 if net == "2-layer" else 3.0)) == (
        "Nowhere (ours − theirs: +1.00 to +3.00 points of error)."
    )


def test_a_claim_that_no_run_tests_says_why():
    cell = Cell(("here",), "a - b", (), "lower", points(-1.0), untested="it ends at 50%")
    assert "it ends at 50%" in where_it_holds(Claim("C0", "", (cell,)))
    assert where_it_holds(Claim("C0", "", ())) == ""


def test_the_verdict_is_followed_by_size_and_count():
    claim = claim_of(lambda _, sort, __: -1.0 if sort == "sort within" else 2.0, is_reduced=True)
    assert verdict_text(claim) == "partly at reduced size, holds in 4 of 8"
    assert verdict_text(Claim("C0", "", (), is_reduced=True)) == "not tested"
