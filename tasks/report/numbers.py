"""Numbers as people read them: rounded to what they can bear, with their unit, an en dash where there is none."""

import math
from collections.abc import Sequence
from typing import TypeGuard

from markupsafe import Markup

NBSP = "\u00a0"
DASH = "–"


def missing(reason: str) -> Markup:
    """An en dash that says why there is no number."""
    return Markup('<span class="missing" title="{0}">–<span class="sr"> ({0})</span></span>').format(reason)


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a finite number (a bool is none)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def number(value: float, *, signed: bool = False) -> str:
    """Three significant digits and more where the number is large: 0.123, 1.23, 12.3, 123, 1,234."""
    size = abs(value)
    if isinstance(value, int) or size == 0 or size >= 99.95:
        decimals = 0
    else:
        decimals = min(6, max(0, 2 - math.floor(math.log10(size))))
    return f"{value:{'+' if signed else ''},.{decimals}f}".replace("-", "−")


def decimals_for(lo: float | None, hi: float | None) -> int:
    """Decimals that show an interval's half-width with two or three significant digits: 3 for shares, fewer for more.

    3 as well where there is no interval; a column of one metric so has one number of decimals.
    """
    if lo is None or hi is None or hi <= lo:
        return 3
    half = (hi - lo) / 2
    return 4 if half < 0.002 else min(3, max(0, 2 - math.floor(math.log10(half))))


def fixed(value: float, decimals: int, *, signed: bool = False) -> str:
    """A fixed number of decimals, with a real minus sign."""
    sign = "+" if signed and round(value, decimals) > 0 else "z"
    return f"{value:{sign},.{decimals}f}".replace("-", "−")


def share(part: float) -> str:
    """A share of 1 in percent; neither 0 % nor 100 % unless it is exactly that."""
    percent = 100 * part
    for decimals in (0, 1, 2):
        text = f"{percent:.{decimals}f}"
        if not (float(text) in (0, 100) and percent not in (0, 100)):
            return f"{text}{NBSP}%"
    return f"<{NBSP}0.01{NBSP}%" if percent < 50 else f">{NBSP}99.99{NBSP}%"


def seconds(value: float) -> str:
    """A length of time: 240 ms, 3.24 s, 2 min 5 s, 1 h 12 min."""
    if value < 1:
        return f"{number(value * 1000)}{NBSP}ms"
    if value < 120:
        return f"{number(float(value))}{NBSP}s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes}{NBSP}min {rest}{NBSP}s"
    return f"{minutes // 60}{NBSP}h {minutes % 60}{NBSP}min"


def size(value: float) -> str:
    """Bytes in the largest binary unit that leaves at least 1."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{number(value)}{NBSP}{unit}"
        value = value / 1024
    return f"{number(value)}{NBSP}TiB"


def percentile(values: Sequence[float], q: float) -> float | None:
    """The q-th percentile (0 to 100) with linear interpolation between order statistics; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
