"""The page's question, "Does the order matter?", answered in three sentences.

What the order does to the loss, what the paper's best method gains on networks, and how many of its claims hold. Every
word follows from the verdicts and the rows at hand.
"""

import math
from collections.abc import Sequence

from gradorder_lab.judge.claims import Claim, Verdict, counted
from gradorder_lab.paper.tuned_steps import BATCH_SIZE, NET, OWN_STEPS
from gradorder_lab.show.evidence import in_unit, interval_text

_HOLDS = {Verdict.REPRODUCED, Verdict.PARTLY}
_CONSTANT, _FALLING = "C1", "C2"
_IMAGES = {"C7": "MNIST", "C8": "Fashion-MNIST"}
_HARDEST_HALF = (f"{NET} net, batch {BATCH_SIZE}, sort within", "mini ordered - full random, test error")
"""Data and what is compared: of all that is run on networks, what is run with searched step sizes too."""


def answer(claims: Sequence[Claim]) -> tuple[str, str, str]:
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
    return f"{with_falling_steps}; {with_constant_steps}.", _on_networks(claims), _on_the_claims(claims)


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


def _on_networks(claims: Sequence[Claim]) -> str:
    same, own = (_test_errors(claims, has_own_steps=has_own_steps) for has_own_steps in (False, True))
    if not same:
        return "Whether an order gains anything on networks is not known from these runs."
    with_own = f"where each has its own, by {own}" if own else "where each has its own, it is not known from these runs"
    return (
        "On networks, training on the hardest half of each batch (sort within) changes full random’s test error by "
        f"{same} where all methods have one step size; {with_own} ({NET} net, batch {BATCH_SIZE})."
    )


def _test_errors(claims: Sequence[Claim], *, has_own_steps: bool) -> str:
    """Data set by data set; empty where it has not been run."""
    effects = [
        (_IMAGES[claim.name], one.effect)
        for claim in claims
        if claim.name in _IMAGES
        for one in claim.comparisons
        if (one.data, one.what) == _HARDEST_HALF
        and (one.reading.endswith(OWN_STEPS) if has_own_steps else claim.is_primary(one))
    ]
    return " and ".join(
        f"{in_unit(effect, effect.mean)} ({interval_text(effect)}) on {data}"
        for data, effect in effects
        if effect is not None
    )


def _on_the_claims(claims: Sequence[Claim]) -> str:
    parts = [f"{number} {verdict}" for verdict, number in counted(claim.verdict for claim in claims).items()]
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"Of the paper’s {len(claims)} claims: {listed}."
