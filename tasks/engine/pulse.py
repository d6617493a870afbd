"""Whether an engine that says nothing still works.

Its worker speaks after every step, and one step may rightly take long: a long prompt on a CPU. So silence alone is
believed late. A process that uses no processor time at all is not at work: that is believed soon.
"""

import contextlib
import time

import psutil

IDLE_S = 60.0
"""Silent and without processor time for so long: hung."""
_LOOK_EVERY_S = 2.0
_AT_WORK = 0.01
"""Cores that an engine at work uses at least; one that waits in poll() uses a thousandth."""
_HANG_S = {"cpu": 900.0, "cuda": 300.0}


def hang_seconds(asked: float | str, *, device: str) -> float:
    """`engine.failures.hang_s` in seconds. device: cpu or cuda."""
    return float(asked) if isinstance(asked, int | float) else _HANG_S[device]


class Pulse:
    """Watches one engine's processes. pid: their supervisor's; hang_s and idle_s: see this module."""

    def __init__(self, *, pid: int, hang_s: float, idle_s: float = IDLE_S) -> None:
        self._pid = pid
        self._hang_s = hang_s
        self._idle_s = idle_s
        self._looked_at = 0.0
        self._since: float | None = None
        self._cpu_s = 0.0

    def stopped(self, silent_s: float) -> str | None:
        """Why this engine is taken for hung, None if it is not. silent_s: seconds since it last spoke."""
        if silent_s > self._hang_s:
            return f"it has said nothing for {silent_s:.0f} s"
        now = time.monotonic()
        if silent_s < _LOOK_EVERY_S:
            self._since = None
        elif now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            used = _cpu_seconds(self._pid)
            if self._since is None or used - self._cpu_s > _AT_WORK * (now - self._since):
                self._since, self._cpu_s = now, used
            elif now - self._since >= self._idle_s:
                return f"it has said nothing for {silent_s:.0f} s, and its processes use no processor time"
        return None


def _cpu_seconds(pid: int) -> float:
    """Of the process and everything below it."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
    return total
