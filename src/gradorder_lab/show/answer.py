"""The page's question, "Does the order matter?", answered in three sentences.

What the order does to the loss of convex problems, what the paper's best method gains on networks, and how many of the
paper's claims hold. Every word follows from the verdicts and the rows at hand.
"""

import math
from collections.abc import Sequence

from gradorder_lab.judge.claims import Cell, Claim, counted
from gradorder_lab.judge.where import verdict_text
from gradorder_lab.paper.convex import PER_STEP
from gradorder_lab.paper.orders import cell_name
from gradorder_lab.paper.tuned_steps import BATCH_SIZE, NET, ONE_STEP, OWN_STEPS, answering_cell
from gradorder_lab.show.evidence import in_unit, interval_text

_CONSTANT, _FALLING = "C1", "C2"
_IMAGES = {"C7": "MNIST", "C8": "Fashion-MNIST"}


def answer(claims: Sequence[Claim]) -> tuple[str, str, str]:
    """The three sentences."""
    known = {claim.name: claim for claim in claims}
    return _on_convex_problems(known), _on_networks(claims), _on_the_claims(claims)


def _on_convex_problems(known: dict[str, Claim]) -> str:
    falling, constant = known[_FALLING], known[_CONSTANT]
    told = [text for schedule in PER_STEP if (text := _with_schedule(falling, schedule))]
    about_falling = (
        f"Compared with random order, decreasing order changes the final F by {'; '.join(told)} "
        f"({_FALLING}: {verdict_text(falling)})."
        if told
        else f"Whether decreasing order ends lowest with a falling step size is not known from these runs ({_FALLING})."
    )
    count = constant.count
    about_constant = (
        f"With a constant step the orders end about alike in {count.holds} of {count.judged} cells ({_CONSTANT})."
        if count.judged
        else f"With a constant step nothing is known from these runs ({_CONSTANT})."
    )
    return f"{about_falling} {about_constant}"


def _with_schedule(claim: Claim, schedule: str) -> str:
    """The relative change of F over the data sets, and what the runs leave of F - F*; empty without runs."""
    name = cell_name("descending", "random", schedule)
    cells = [cell for cell in claim.judged if cell.name == name]
    shares = sorted(share for cell in cells if math.isfinite(share := _of_loss(cell)))
    left = sorted(cell.left for cell in cells if cell.left is not None)
    if not shares:
        return ""
    leaves = f", which leaves {_range(left, sign='')} of F − F* undone" if left else ""
    return f"{_range(shares)} with step size {schedule}{leaves}"


def _of_loss(cell: Cell) -> float:
    return math.nan if cell.effect is None else cell.effect.loss_difference


def _range(values: Sequence[float], sign: str = "+") -> str:
    low, high = (f"{100 * value:{sign}.2g}%".replace("-", "−") for value in (values[0], values[-1]))
    return low if low == high else f"{low} to {high}"


def _on_networks(claims: Sequence[Claim]) -> str:
    same, own = (_test_errors(claims, reading) for reading in (ONE_STEP, OWN_STEPS))
    if not same:
        return "Whether an order gains anything on networks is not known from these runs."
    with_own = f"with its own tuned learning rate for each, by {own}" if own else "with tuned ones, it is not known"
    return (
        "On networks, training on the hardest half of each batch (sort within) changes full random’s test error by "
        f"{same} with one learning rate for all methods; {with_own} ({NET} net, batch {BATCH_SIZE})."
    )


def _test_errors(claims: Sequence[Claim], learning_rates: str) -> str:
    """Data set by data set; empty if nothing has been run."""
    name = answering_cell(learning_rates)
    cells = {
        _IMAGES[one.name]: cell for one in claims if one.name in _IMAGES for cell in one.cells if cell.name == name
    }
    return " and ".join(
        f"{in_unit(cell.effect, cell.effect.mean)} ({interval_text(cell.effect)}) on {data}"
        for data, cell in cells.items()
        if cell.effect is not None
    )


def _on_the_claims(claims: Sequence[Claim]) -> str:
    parts = [f"{number} {verdict}" for verdict, number in counted(claim.verdict for claim in claims).items()]
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"Of the paper’s claims, C12 counted as three: {listed}."
