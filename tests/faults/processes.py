"""Looking at real processes, for tests that kill them."""

import os
import time
from pathlib import Path

import psutil


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


def workers(mark: str) -> list[int]:
    """The engines' workers among the processes with the mark; the supervisor that leads each is none."""
    return [
        pid for pid in marked(mark) if "tasks.engine.worker" in (line := _cmdline(pid)) and "supervisor" not in line
    ]


def _cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def wait_until_gone(mark: str, *, timeout_s: float) -> list[int]:
    """Waits until no process with the mark is left; gives those that still are."""
    end = time.monotonic() + timeout_s
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def wait_for(condition: object, *, timeout_s: float, what: str, every_s: float = 0.05) -> None:
    """Waits until `condition()` is true. Raises AssertionError with `what` if it does not become so.

    every_s: how often it is looked at; more seldom where looking takes time from what is waited for."""
    assert callable(condition)
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(every_s)
    raise AssertionError(f"not within {timeout_s:.0f} s: {what}")


def family(pid: int) -> list[psutil.Process]:
    """Every process below `pid`, now. vLLM writes its own title over its environment: a mark does not find it."""
    return psutil.Process(pid).children(recursive=True)


def wait_until_dead(processes: list[psutil.Process], *, timeout_s: float) -> list[str]:
    """Waits until none of them lives; gives the names of those that still do."""
    end = time.monotonic() + timeout_s
    while (left := [p for p in processes if _lives(p)]) and time.monotonic() < end:
        time.sleep(0.1)
    return [" ".join(p.cmdline()) for p in left if _lives(p)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
