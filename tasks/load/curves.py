"""What was used up to any moment of a window, from readings at some moments."""

from collections.abc import Callable, Sequence

import numpy as np

from tasks.load.readings import Floats, Series, Window

Curve = Callable[[Floats], Floats]
"""How much was used from the window's begin to each of these moments, which are in the window and by its clock."""


def of_counter(series: Series, window: Window) -> Curve | None:
    """From a counter: in a straight line between two readings, and in the same line up to a second further. None where
    it fell: a device that was reset counts anew, and what it had counted by then is not known."""
    if np.any(np.diff(series.values) < 0):
        return None
    times, values = _stretched(series, window, straight=True)
    begun = np.interp(0.0, times, values)
    return lambda moments: np.interp(moments, times, values) - begun


def of_power(series: Series, window: Window) -> Curve:
    """From power: the area under straight lines between the readings (trapezoids), of a constant beyond them."""
    times, powers = _stretched(series, window, straight=False)
    slopes = np.diff(powers) / np.diff(times)
    areas = np.concatenate([[0.0], np.cumsum((powers[1:] + powers[:-1]) / 2 * np.diff(times))])

    def until(moments: Floats) -> Floats:
        index = np.clip(np.searchsorted(times, moments, side="right") - 1, 0, len(slopes) - 1)
        since = moments - times[index]
        return np.asarray(areas[index] + powers[index] * since + slopes[index] * since**2 / 2, dtype=np.float64)

    begun = until(np.zeros(1))[0]
    return lambda moments: until(moments) - begun


def of_time(each_s: float) -> Curve:
    """Of time itself: so much a second."""
    return lambda moments: moments * each_s


def together(curves: Sequence[Curve]) -> Curve:
    """Several devices as one."""
    return lambda moments: np.sum([curve(moments) for curve in curves], axis=0)


def total(curve: Curve, window: Window) -> float:
    """What was used in the whole window."""
    return float(curve(np.asarray([window.seconds]))[0])


def _stretched(series: Series, window: Window, *, straight: bool) -> tuple[Floats, Floats]:
    times, values = series.times, series.values
    if times[0] > 0.0:
        slope = (values[1] - values[0]) / (times[1] - times[0]) if straight else 0.0
        values = np.concatenate([[values[0] - slope * times[0]], values])
        times = np.concatenate([[0.0], times])
    if times[-1] < window.seconds:
        slope = (values[-1] - values[-2]) / (times[-1] - times[-2]) if straight else 0.0
        values = np.concatenate([values, [values[-1] + slope * (window.seconds - times[-1])]])
        times = np.concatenate([times, [window.seconds]])
    return times, values
