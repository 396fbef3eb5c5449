"""Figures as JSON: every array once, with as many digits as its panel needs."""

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from gradorder_lab.figures import Curve, Figure, Panel
from gradorder_lab.runs.recipe import Array
from gradorder_lab.show.styles import line_styles

Json = dict[str, object]

_DIGITS = 5
_ALL_DIGITS = 17
_X_DIGITS = 7
_CLOSE = 1e-3
_CROWD = 5


class _Arrays:
    """Arrays by number: methods share their x, and panels share methods."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[float | None, ...], int] = {}

    def add(self, array: Array, digits: int) -> int:
        rounded = tuple(_rounded(float(value), digits) for value in array)
        return self.numbers.setdefault(rounded, len(self.numbers))


def figure_data(figures: Sequence[Figure]) -> Json:
    """What the page's script draws from; only plain values, without NaN and infinities."""
    arrays = _Arrays()
    drawn = {figure.name: _figure_json(figure, arrays) for figure in figures}
    labels = [[curve.label for panel in figure.panels for curve in panel.curves] for figure in figures]
    styles = {label: asdict(style) for label, style in line_styles(labels).items()}
    return {"arrays": list(arrays.numbers), "styles": styles, "figures": drawn}


def _figure_json(figure: Figure, arrays: _Arrays) -> Json:
    return {
        "title": figure.title,
        "columns": figure.num_columns,
        "yLabel": figure.y_label,
        "xLabels": dict(figure.x_labels),
        "view": first_view(figure),
        "panels": [_panel_json(panel, arrays) for panel in figure.panels],
    }


def first_view(figure: Figure) -> str:
    """How y is shown at first: logarithmic, linear, or against random, where curves lie too close or too many bands."""
    closeness = [_closeness(panel) for panel in figure.panels if panel.curves]
    is_crowded = any(len(panel.curves) >= _CROWD for panel in figure.panels)
    if figure.is_against or is_crowded or (closeness and max(closeness) < _CLOSE):
        return "against"
    return "log" if figure.is_log else "linear"


def _closeness(panel: Panel) -> float:
    means = np.concatenate([curve.band.mean for curve in panel.curves])
    finite = means[np.isfinite(means)]
    return float(np.ptp(finite) / np.abs(finite).max()) if finite.any() else math.inf


def _panel_json(panel: Panel, arrays: _Arrays) -> Json:
    digits = num_digits(panel)
    return {
        "title": panel.title,
        "digits": digits,
        "curves": [_curve_json(curve, arrays, digits) for curve in panel.curves],
        "missing": list(panel.missing),
    }


def _curve_json(curve: Curve, arrays: _Arrays, digits: int) -> Json:
    band = {name: arrays.add(getattr(curve.band, name), digits) for name in ("mean", "low", "high")}
    x = {name: arrays.add(values, _X_DIGITS) for name, values in curve.x.items()}
    return {"label": curve.label, "seeds": curve.num_seeds, "x": x, **band}


def num_digits(panel: Panel) -> int:
    """Enough to see how the curves move and how far apart they end."""
    means = [curve.band.mean for curve in panel.curves]
    needed = [*(_digits_for(mean) for mean in means), _digits_for(np.array([mean[-1] for mean in means]))]
    return max(needed, default=_DIGITS)


def _digits_for(values: Array) -> int:
    finite = values[np.isfinite(values)]
    spread = float(np.ptp(finite)) if len(finite) else 0.0
    if spread == 0:
        return _DIGITS
    lost = math.ceil(math.log10(np.abs(finite).max() / spread))
    return min(_DIGITS + max(lost, 0), _ALL_DIGITS)


def _rounded(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
