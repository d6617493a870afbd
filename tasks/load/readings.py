"""Telemetry as the numbers of a cell are made of it: by device and session, and continuous between readings."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]
Floats = NDArray[np.float64]
Moments = NDArray[np.int64]
CPU = "cpu"
EDGE_S = 1.5
"""Telemetry reads at least once a second. A window that goes on longer than this before its first reading, or after its
last, was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a cell was measured, and the clock of all that is made of it: seconds since its begin. begin_us: whole
    microseconds since 1970; as seconds they would be known to a quarter of one only, and energy no better."""

    begin_us: int
    seconds: float

    def at(self, moment: datetime) -> float:
        """A moment by this clock; below 0 before the window."""
        return (_us(moment) - self.begin_us) / 1e6


def window_of(cell: Row) -> Window | None:
    """A cell's, a row of `cells`; None where it has none, as one during which the engine died."""
    begin, end = cell["started_at"], cell["ended_at"]
    if begin is None or end is None or end <= begin:
        return None
    return Window(begin_us=_us(begin), seconds=(_us(end) - _us(begin)) / 1e6)


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One column of one device over a window, by the window's clock: from the last reading before it to the first after
    it, as far as there are such. Readings without a value are not in it."""

    times: Floats
    values: Floats

    @property
    def longest_gap_s(self) -> float:
        return float(np.diff(self.times).max(initial=0.0))


class Readings:
    """rows: of `telemetry`, in any order, of any number of sessions of one run. A resumed run has a pause between its
    sessions, told apart by their revision, in which nobody read: nothing reaches across it."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._sessions: dict[str, dict[int, _Session]] = {}
        kept: dict[tuple[str, int], list[Row]] = {}
        for row in rows:
            kept.setdefault((row["device"], row.get("revision") or 0), []).append(row)
        for (device, revision), own in sorted(kept.items(), key=lambda item: item[0]):
            self._sessions.setdefault(device, {})[revision] = _Session(own)

    def devices(self, wanted: Collection[str] | None = None) -> list[str]:
        """Those that work for the engine: the wanted ones that were read; else the GPUs on which its processes were
        seen; all GPUs where none were, as in most containers; on a machine without one, the processors."""
        if wanted is not None:
            return [device for device in self._sessions if device in wanted]
        gpus = [device for device in self._sessions if device != CPU]
        own = [gpu for gpu in gpus if any(each.has_engine for each in self._sessions[gpu].values())]
        return own or gpus or [device for device in self._sessions if device == CPU]

    def rows(self, device: str, window: Window) -> list[Row]:
        """Its readings within the window, in their order."""
        return [row for session in self._sessions.get(device, {}).values() for row in session.within(window)]

    def series(self, device: str, column: str, window: Window) -> Series | None:
        """The column over the window, of the session that measured it; None where none did, or not from one end to the
        other."""
        for session in self._sessions.get(device, {}).values():
            found = session.series(column, window)
            if found is not None:
                return found
        return None


class _Session:
    def __init__(self, rows: list[Row]) -> None:
        self._rows = sorted(rows, key=lambda row: row["ts"])
        self._columns: dict[str, tuple[Moments, Floats]] = {}

    @cached_property
    def _moments(self) -> Moments:
        return np.asarray([_us(row["ts"]) for row in self._rows], dtype=np.int64)

    @cached_property
    def has_engine(self) -> bool:
        return any(row.get("engine_processes") for row in self._rows)

    def within(self, window: Window) -> list[Row]:
        begin, end = _ends(window)
        first = int(np.searchsorted(self._moments, begin, side="left"))
        return self._rows[first : int(np.searchsorted(self._moments, end, side="right"))]

    def series(self, column: str, window: Window) -> Series | None:
        moments, values = self._column(column)
        begin, end = _ends(window)
        first = max(0, int(np.searchsorted(moments, begin, side="right")) - 1)
        last = int(np.searchsorted(moments, end, side="left"))
        times = (moments[first : last + 1] - window.begin_us) / 1e6
        if len(times) < 2 or times[0] > EDGE_S or times[-1] < window.seconds - EDGE_S:
            return None
        return Series(times=times, values=values[first : last + 1])

    def _column(self, name: str) -> tuple[Moments, Floats]:
        if name not in self._columns:
            known = np.asarray([row.get(name) is not None for row in self._rows], dtype=bool)
            values = [row[name] for row in self._rows if row.get(name) is not None]
            self._columns[name] = self._moments[known], np.asarray(values, dtype=np.float64)
        return self._columns[name]


def _ends(window: Window) -> tuple[int, int]:
    return window.begin_us, window.begin_us + round(window.seconds * 1e6)
