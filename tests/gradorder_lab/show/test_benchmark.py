from math import inf

from gradorder_lab.benchmark.curves import UNKNOWN_SAVING, Saving
from gradorder_lab.show.benchmark import Share, ShareTable

SHARES = [
    Share("one", "rare", Saving(inf, 0.9, inf)),
    Share("one", "ours", Saving(0.5, 0.4, 0.6)),
    Share("two", "ours", Saving(2.0, 1.5, 2.5)),
    Share("three", "ours", Saving(1.0, 0.9, inf)),
]


def test_rows_are_methods_and_columns_tasks():
    table = ShareTable.of(SHARES)
    assert table.tasks == ("one", "two", "three")
    assert list(table.rows.items()) == [("ours", tuple(SHARES[1:])), ("rare", (SHARES[0], None, None))]


def test_the_tone_says_where_the_interval_lies():
    assert [share.tone for share in SHARES] == ["never", "cheaper", "dearer", "level"]
    assert Share("", "", Saving(0.9, 0.8, 1.0)).tone == "level"
    assert Share("", "", UNKNOWN_SAVING).tone == "never"


def test_a_share_says_what_the_tables_say():
    assert [share.words for share in (SHARES[0], SHARES[1], SHARES[3])] == [
        "not reached (0.90 to not reached)",
        "0.50 (0.40 to 0.60)",
        "1.00 (0.90 to not reached)",
    ]
    assert Share("", "", UNKNOWN_SAVING).words == "unknown"


def test_a_method_in_a_sentence():
    table = ShareTable.of(SHARES)
    assert table.summary_of("ours") == (
        "“ours” got there on 3 of 3 tasks, for 0.50 to 2.00 of the cost (median 1.00): cheaper beyond noise on 1, "
        "dearer on 1."
    )
    assert table.summary_of("rare") == "“rare” did not get there on any of 1 tasks."
