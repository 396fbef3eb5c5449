"""The rule's first version, kept so that both verdicts can be shown where they differ.

It was written before the published runs. Effects were shares of random's F - F* with a margin of 5% (half a point of
accuracy), an effect of any size could decide, and runs counted that hardly moved: see `WHY`.
"""

from gradorder_lab.judge.claims import Claim, Comparison, Outcome, Verdict, verdict_by, weakest
from gradorder_lab.judge.effects import MARGINS

WHY = (
    "The rule was revised once, after the published runs: its first version counted runs that hardly move (C2 on the "
    "literal iris held by 10⁻⁹, C6 on the literal Boston was decided by 0.0003% in a run that brought F − F* down by "
    "0.1%), took noise floors for a difference (C1), and decided by single comparisons of three seeds among many "
    "(C13). The second version asks first whether a run tests the claim, measures effects on F itself "
    "by what the run brought down, needs an effect that matters on either side, and corrects for many comparisons; "
    "where its verdict differs, the first one stands beside it."
)


def first_verdict(claim: Claim) -> Verdict:
    """The verdict by the first version, from the same runs."""
    known = [one for one in claim.comparisons if one.first != "none"]
    data_sets = dict.fromkeys(one.data for one in known)
    verdicts = []
    for data in data_sets:
        comparisons = [one for one in known if one.data == data]
        primary = [_outcome(one) for one in comparisons if one.first == "primary"]
        verdicts.append(verdict_by(primary, [_outcome(one) for one in comparisons]))
    return weakest(verdicts)


def _outcome(comparison: Comparison) -> Outcome | None:
    effect = comparison.effect
    if effect is None:
        return None
    margin = MARGINS["points" if effect.unit == "points" else "excess"]
    low, high = (effect.excess_factor * end for end in (effect.low, effect.high))
    within = low > -margin and high < margin
    holds, fails = {
        "lower": (high < 0, low > 0 or within),
        "equal": (within, low > margin or high < -margin),
        "different": (high < 0 or low > 0, within),
        "always": (effect.won == 1, effect.won < 1),
    }[comparison.kind]
    return Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.OPEN
