"""When a request is sent again, and when none is sent any more."""

import email.utils
import math
import random
import re
import time
from collections.abc import Mapping

from schemas.endpoint import Breaker, Retries

WORTH_IT = frozenset({408, 425, 429})
"""States of HTTP below 500 in which asking again may help."""
_LIMITS = ("requests", "tokens")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def again(status: int) -> bool:
    """Whether a request that came back with this state of HTTP may be sent again."""
    return status in WORTH_IT or status >= 500


def backoff_s(retries: Retries, tries: int) -> float:
    """Seconds to wait after so many tries: anything between 0 and a bound that doubles (full jitter)."""
    bound = min(retries.longest_wait_s, retries.first_wait_s * 2.0 ** min(tries - 1, 40))
    return random.uniform(0.0, bound)  # noqa: S311 - it spreads a load


def asked_wait_s(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds after which the server wants to be asked again; None where it names none. headers: by any case that
    they look up; now: UTC seconds."""
    at = time.time() if now is None else now
    after = headers.get("Retry-After", "").strip()
    if after:
        found = _seconds(after, at)
        if found is None:
            found = _until(after, at)
        if found is not None:
            return found
    waits = []
    for limit in _LIMITS:
        left = headers.get(f"x-ratelimit-remaining-{limit}", "0").strip()
        reset = headers.get(f"x-ratelimit-reset-{limit}", "").strip()
        if reset and left in ("0", "0.0"):
            waits.append(_seconds(reset, at))
    waits.append(_seconds(headers.get("x-ratelimit-reset", "").strip(), at))
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds(text: str, now: float) -> float | None:
    """`20`, `20ms`, `6m0s`, or a moment in UTC seconds or milliseconds."""
    try:
        value = float(text)
    except ValueError:
        parts = _SPAN.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            return None
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 <= value < math.inf:
        return None
    if value > 1e11:
        value /= 1000.0
    return max(0.0, value - now) if value > 1e9 else value


def _until(text: str, now: float) -> float | None:
    """A date as HTTP has it."""
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError):
        return None


class Circuit:
    """Counts failures one after the other, and opens: then nothing is sent until a look finds the server back.

    After that one failure opens it again, until one request has succeeded."""

    def __init__(self, breaker: Breaker) -> None:
        self._most = breaker.failures
        self._in_a_row = 0
        self._on_trial = False
        self._why: str | None = None

    @property
    def open(self) -> bool:
        return self._why is not None

    @property
    def reason(self) -> str | None:
        """Why nothing is sent; None where it is."""
        return self._why

    def failed(self, words: str) -> bool:
        """Counts a failure; whether this one opened it."""
        self._in_a_row += 1
        if not self._most or self.open or not (self._on_trial or self._in_a_row >= self._most):
            return False
        times = f"{self._in_a_row} times in a row" if self._in_a_row > 1 else "again"
        self._why = f"not sent: the server failed {times}, the last time so: {words}"
        return True

    def succeeded(self) -> None:
        """The server answered, if only by saying what is wrong with the request."""
        self._in_a_row, self._on_trial, self._why = 0, False, None

    def back(self) -> None:
        """A look found the server back: it is tried."""
        if self.open:
            self._why, self._on_trial, self._in_a_row = None, True, 0
