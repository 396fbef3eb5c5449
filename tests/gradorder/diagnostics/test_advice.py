import dataclasses

import pytest

import gradorder as go
from gradorder.diagnostics.advice import ScoreAdvice


def advice(*scores, **changes):
    given = {
        "num_examples": 1024,
        "batch_size": 128,
        "step_seconds": 0.002,
        "variation": 1.0,
        "harder_half_share": 0.9,
        "effective_share": 0.5,
        "scores": scores,
    }
    return go.Advice(**(given | changes))


@pytest.mark.parametrize(
    ("gain", "cost", "verdict"),
    [
        (1.0, 0.0, "unlikely"),
        (1.0999, 0.0, "unlikely"),
        (1.1, 0.0, "unclear"),
        (1.4999, 0.0, "unclear"),
        (1.5, 0.0, "likely"),
        (3.0, 1.0, "likely"),
        (3.0, 1.001, "unclear"),
        (3.0, 1.8, "unlikely"),
        (0.0, 0.0, "unlikely"),
    ],
)
def test_the_verdict_is_by_the_gain_per_time(gain, cost, verdict):
    assert advice(ScoreAdvice("Loss", cost, 0.9, gain)).verdict == verdict


def test_the_best_score_decides():
    slow, cheap = ScoreAdvice("GradientNorm", 4.0, 1.0, 5.0), ScoreAdvice("Loss", 0.25, 0.7, 2.5)
    found = advice(slow, cheap)
    assert found.best is cheap
    assert found.best.gain_per_time == 2.0
    assert found.verdict == "likely"
    assert advice(slow).verdict == "unlikely"


@pytest.mark.parametrize(("cost", "saving"), [(0.0, 0.5), (0.3, 0.2), (1.2, -0.7)])
def test_keeping_half_saves_what_scoring_leaves(cost, saving):
    assert ScoreAdvice("Loss", cost, 1.0, 1.0).half_saving == pytest.approx(saving)


def test_the_text_has_the_numbers_and_claims_no_more():
    found = advice(
        ScoreAdvice("remembered losses", 0.0, 0.87, 1.9),
        ScoreAdvice("GradientNorm", 0.95, 1.0, 2.0),
        ScoreAdvice("Loss", 0.41, None, 1.9),
        refused=("LogitError",),
    )
    text = str(found)
    assert text == found.text
    first, *_ = text.splitlines()
    assert first == (
        "Ordering or selection by scores is likely to pay: expected from this probe of 1,024 examples, "
        "by remembered losses (gain per time 1.90)."
    )
    for said in (
        "is 100% of their mean",
        "holds 90% of their sum",
        "counts as much as 2.00 drawn uniformly",
        "a training step on 128 examples, 2.00 ms",
        "Scoring every epoch by GradientNorm would add 95% to its time.",
        "Not for this model or loss: LogitError.",
        "neither wrong labels",
    ):
        assert said in text
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["remembered losses"][2:] == ["0%", "0.87", "1.90", "1.90", "at", "most", "50%"]
    assert rows["GradientNorm"][1:] == ["95%", "1.00", "2.00", "1.03", "nothing"]
    assert rows["Loss"][1:] == ["41%", "-", "1.90", "1.35", "at", "most", "9%"]


@pytest.mark.parametrize(
    ("gain", "start"),
    [(1.0, "Ordering or selection by scores is unlikely"), (1.3, "It is unclear whether"), (9.0, "Ordering or sel")],
)
def test_the_first_words_are_the_verdict(gain, start):
    found = advice(ScoreAdvice("Loss", 0.0, 1.0, gain), step_seconds=2.5)
    assert found.text.startswith(start)
    assert found.verdict in found.text.split(":")[0]
    assert "2.50 s" in found.text
    assert "Not for this" not in found.text


def test_advice_does_not_change():
    found = advice(ScoreAdvice("Loss", 0.0, 1.0, 1.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.variation = 2.0
