"""One sentence on where a claim holds and where it does not, from its cells.

Of all that tells cells apart (data set, network, what is compared, each reading) the sentence names the one that best
separates the cells by their outcome, by information gain.
"""

from collections.abc import Sequence
from math import inf, isfinite, log2

from gradorder_lab.judge.claims import Cell, Claim, Outcome
from gradorder_lab.judge.effects import Effect


def verdict_text(claim: Claim) -> str:
    """The verdict with its size and its count, as "partly at reduced size, holds in 5 of 8, 2 open"."""
    count = claim.count
    if not count.judged:
        return str(claim.verdict)
    size = " at reduced size" if claim.is_reduced else ""
    still_open = f", {count.open} open" if count.open else ""
    return f"{claim.verdict}{size}, holds in {count.holds} of {count.judged}{still_open}"


def where_it_holds(claim: Claim) -> str:
    """The sentence; for a claim that no cell can judge, why not."""
    judged = claim.judged
    if not judged:
        return _why_not(claim)
    count = claim.count
    if count.holds == count.judged:
        return f"Everywhere{_beside(judged)}."
    if not count.holds:
        return f"{'Nowhere' if count.fails else 'Not known'}{_beside(judged)}."
    groups = _merged(claim, _best_groups(claim, judged))
    ordered = sorted(groups, key=lambda name: -_number_of(Outcome.HOLDS, claim, groups[name]) / len(groups[name]))
    return "; ".join(_group(name, claim, groups[name]) for name in ordered) + "."


def _why_not(claim: Claim) -> str:
    reasons = [cell.untested for cell in claim.cells if cell.untested]
    return f"No run tests it: {max(set(reasons), key=reasons.count)}." if reasons else ""


def _merged(claim: Claim, groups: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Groups in which all cells hold as one, and likewise those in which none does."""
    pure: dict[bool, list[str]] = {}
    for name, cells in groups.items():
        holds = _number_of(Outcome.HOLDS, claim, cells)
        if holds in {0, len(cells)}:
            pure.setdefault(holds > 0, []).append(name)
    merged = {", ".join(names): [cell for name in names for cell in groups[name]] for names in pure.values()}
    alone = {name: cells for name, cells in groups.items() if not any(name in names for names in pure.values())}
    return merged | alone


def _group(name: str, claim: Claim, cells: Sequence[Cell]) -> str:
    holds, fails = (_number_of(outcome, claim, cells) for outcome in (Outcome.HOLDS, Outcome.FAILS))
    beside = _beside(cells) if holds in {0, len(cells)} else f", {fails or 'none'} {'fails' if fails < 2 else 'fail'}"  # noqa: PLR2004
    return f"{name}: {holds} of {len(cells)}{beside}".replace(" - ", " − ")


def _beside(cells: Sequence[Cell]) -> str:
    """The effects in brackets; nothing for a bound that holds, whose distance says nothing."""
    if all(cell.kind == "always" and cell.effect is not None and cell.effect.won == 1 for cell in cells):
        return ""
    compared = {cell.compared.replace(" - ", " − ") for cell in cells}
    names = f"{compared.pop()}: " if len(compared) == 1 else ""
    return f" ({names}{_spans(cells)})"


def _number_of(outcome: Outcome, claim: Claim, cells: Sequence[Cell]) -> int:
    return sum(claim.outcomes[cell] == outcome for cell in cells)


def _best_groups(claim: Claim, cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells by the values of the label that separates best; the first of several that do."""
    labels = [_labels(cell) for cell in cells]
    groupings = [_grouped(cells, [label[place] for label in labels]) for place in range(min(map(len, labels)))]
    return min(groupings, key=lambda groups: _disorder(claim, groups))


def _labels(cell: Cell) -> tuple[str, ...]:
    return *cell.part, cell.compared, *cell.reading


def _grouped(cells: Sequence[Cell], names: Sequence[str]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for name, cell in zip(names, cells, strict=True):
        found.setdefault(name, []).append(cell)
    return found


def _disorder(claim: Claim, groups: dict[str, list[Cell]]) -> float:
    """The entropy of the outcomes that is left within the groups, in bits for all cells together."""
    left = 0.0
    for cells in groups.values():
        numbers = (_number_of(outcome, claim, cells) for outcome in Outcome)
        left -= sum(number * log2(number / len(cells)) for number in numbers if number)
    return round(left, 9)  # equal splits are equal: then the first label is named


def _spans(cells: Sequence[Cell]) -> str:
    """From where to where the effects lie, for each of the things that they are shares of."""
    ends: dict[str, tuple[Effect, float, float]] = {}
    for effect in (cell.effect for cell in cells if cell.effect is not None):
        _, low, high = ends.get(effect.of_what, (effect, inf, -inf))
        ends[effect.of_what] = (effect, min(low, effect.mean), max(high, effect.mean))
    return ", ".join(_span(effect, low, high) for effect, low, high in ends.values())


def _span(effect: Effect, low: float, high: float) -> str:
    what = "points" if effect.unit == "points" else "%"
    ends = [_number(value if what == "points" else 100 * value, points=what == "points") for value in (low, high)]
    told = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return f"{told}{'' if what == '%' else ' '}{what} {effect.of_what}"


def _number(value: float, *, points: bool) -> str:
    if not isfinite(value):
        return "not finite"
    text = f"{value:+.2f}" if points else f"{value:+.2g}" if abs(value) < 100 else f"{value:+,.0f}"  # noqa: PLR2004
    return text.replace("-", "−")
