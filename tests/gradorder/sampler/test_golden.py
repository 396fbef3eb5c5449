import csv
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import golden

with golden.PATH.open() as file:
    WRITTEN = {row["run"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("ordering", golden.ORDERINGS, ids=str)
def test_orders_and_weights_are_those_written_down(ordering):
    for row in golden.rows([ordering]):
        written = WRITTEN[row["run"]]
        assert row["indices"] == written["indices"], row["run"]
        # Seven digits are written; logarithms and exponentials of doubles differ in the sixteenth.
        assert float(row["weights"] or 0) == pytest.approx(float(written["weights"] or 0), rel=1e-6), row["run"]
