"""Numbers in words: shares as percent, readable at any size."""

import math

from gradorder_lab.judge.effects import Effect

NEGLIGIBLE = 1e-6
"""A share below which an effect is too small to matter, however sure its sign is."""

_FEWEST_PERCENT = 1e-3
_MOST_PERCENT = 1000
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float) -> str:
    r"""A share as percent with three digits.

    >>> percent(-0.48123), percent(12.345), percent(0.0), percent(-1.034e-9)
    ('−48.1%', '+1,234%', '0%', '−1.03 ×\xa010⁻⁷%')
    """
    value = 100 * share
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    if value == 0:
        return "0%"
    return _with_digits(value).replace("-", "−") + "%"


def _with_digits(value: float) -> str:
    if abs(value) < _FEWEST_PERCENT:
        mantissa, exponent = f"{value:+.2e}".split("e")
        return f"{mantissa} ×\N{NO-BREAK SPACE}10{str(int(exponent)).translate(_RAISED)}"
    return f"{value:+,.0f}" if abs(value) >= _MOST_PERCENT else f"{value:+.3g}"


def quantity(value: float) -> str:
    """A count or a time, at most as exact as one reads.

    >>> quantity(1_234_567.8), quantity(12.3456), quantity(0.5)
    ('1,234,568', '12.3', '0.5')
    """
    return f"{value:,.0f}" if abs(value) >= _MOST_PERCENT else f"{value:.3g}"


def in_unit(effect: Effect, value: float) -> str:
    """One of the numbers of an effect, in its unit.

    >>> in_unit(Effect(mean=-0.5, low=-1.0, high=0.0, won=0.5, num_seeds=10, unit="points"), -0.5)
    '−0.50 points'
    """
    if effect.unit != "points" or not math.isfinite(value):
        return percent(value)
    return f"{value:+.2f} points".replace("-", "−")


def interval_text(effect: Effect) -> str:
    """The ends of its 95% interval.

    >>> interval_text(Effect(mean=0.1, low=-0.2, high=0.4, won=0.5, num_seeds=10))
    '−20% to +40%'
    """
    return f"{in_unit(effect, effect.low)} to {in_unit(effect, effect.high)}"


def remark(effect: Effect) -> str:
    """What to say of an effect that is next to nothing; empty for all others.

    >>> remark(Effect(mean=-1e-9, low=-2e-9, high=-5e-10, won=1.0, num_seeds=10))
    'negligible, though significant'
    """
    if abs(effect.mean) >= NEGLIGIBLE:
        return ""
    if effect.low == effect.high == 0:
        return "identical"
    return "negligible, though significant" if effect.high < 0 or effect.low > 0 else "negligible"
