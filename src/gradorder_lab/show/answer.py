"""The page's question, "Does the order matter?", answered in three sentences.

What the order does to the loss, what it costs and saves on networks, and how many of the paper's claims hold. Every
word follows from the verdicts and the rows at hand.
"""

import math
from collections.abc import Iterable, Sequence

from gradorder_lab.judge.claims import Claim, Verdict, counted
from gradorder_lab.show.headline import FULL_RANDOM, Headline, StrategyCosts

_HOLDS = {Verdict.REPRODUCED, Verdict.PARTLY}
_CONSTANT, _FALLING = "C1", "C2"


def answer(claims: Sequence[Claim], headline: Headline) -> tuple[str, str, str]:
    """The three sentences."""
    known = {claim.name: claim for claim in claims}
    gain = _gain(known[_FALLING])
    with_falling_steps = _by_verdict(
        known[_FALLING],
        f"Yes, where the step size falls at every iteration: in decreasing order the loss ends {gain}",
        "Not as the paper says: with a step size that falls at every iteration decreasing order is not best",
        "Not known from these runs where the step size falls at every iteration",
    )
    with_constant_steps = _by_verdict(
        known[_CONSTANT],
        "with a constant step all orders end about alike",
        "with a constant step the orders do not end alike",
        "with a constant step it is not known",
    )
    return f"{with_falling_steps}; {with_constant_steps}.", _on_networks(headline), _on_the_claims(claims)


def _by_verdict(claim: Claim, holds: str, fails: str, unknown: str) -> str:
    words = holds if claim.verdict in _HOLDS else fails if claim.verdict == Verdict.NOT_REPRODUCED else unknown
    return f"{words} ({claim.name}: {claim.verdict})"


def _gain(claim: Claim) -> str:
    """By how much decreasing order ends below random, over the data sets."""
    effects = [one.effect for data in claim.data for one in claim.primary_on(data) if one.what.endswith("- random")]
    shares = sorted(-one.loss_difference for one in effects if one is not None and math.isfinite(one.loss_difference))
    if not shares:
        return "lowest"
    low, high = (f"{share:.0%}" for share in (shares[0], shares[-1]))
    return f"{low} below random’s" if low == high else f"{low} to {high} below random’s"


def _on_networks(headline: Headline) -> str:
    tried = [one for one in headline.strategies if one.name != FULL_RANDOM]
    if not tried:
        return "Whether an order saves anything on networks is not known from these runs."
    ordered, unordered = (
        _cheapest(one for one in tried if ("ordered" in one.name) == wanted) for wanted in (True, False)
    )
    if ordered is None:
        return "On networks none of the paper’s orders came to the accuracy of full random on every task."
    return (
        f"On networks, at equal test accuracy, the cheapest of the paper’s orders ({ordered.name}) took "
        f"{ordered.median_ratios['trained']:.2f} of the example gradients that full random takes and, scoring "
        f"included, {ordered.median_ratios['forward']:.2f} of its forward passes{_without_order(unordered)}."
    )


def _without_order(strategy: StrategyCosts | None) -> str:
    if strategy is None:
        return ""
    return f"; {strategy.name}, without any order, took {strategy.median_ratios['forward']:.2f}"


def _cheapest(strategies: Iterable[StrategyCosts]) -> StrategyCosts | None:
    """By forward passes, which include scoring; of those that got there on every task."""
    got_there = (one for one in strategies if one.num_reached == one.num_tasks)
    return min(got_there, key=lambda one: one.median_ratios["forward"], default=None)


def _on_the_claims(claims: Sequence[Claim]) -> str:
    parts = [f"{number} {verdict}" for verdict, number in counted(claim.verdict for claim in claims).items()]
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"Of the paper’s {len(claims)} claims: {listed}."
