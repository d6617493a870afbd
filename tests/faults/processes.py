"""Looking at real processes, for tests that kill them."""

import os
import time
from pathlib import Path


def marked(mark: str) -> list[int]:
    """Every living process whose environment or command line holds `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if state != "Z" and mark.encode() in text:
            found.append(int(entry.name))
    return found


def wait_until_gone(mark: str, *, timeout_s: float) -> list[int]:
    """Waits until no process with the mark is left; gives those that still are."""
    end = time.monotonic() + timeout_s
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def wait_for(condition: object, *, timeout_s: float, what: str) -> None:
    """Waits until `condition()` is true. Raises AssertionError with `what` if it does not become so."""
    assert callable(condition)
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s:.0f} s: {what}")
