"""What a process and all its descendants hold in memory, by the kernel's own lists."""

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def _descendants(pid: int) -> list[int]:
    found, waiting = [pid], [pid]
    while waiting:
        try:
            lists = [
                path.read_text(encoding="ascii") for path in Path(f"/proc/{waiting.pop()}/task").glob("*/children")
            ]
        except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
            continue
        children = [int(word) for text in lists for word in text.split()]
        found += children
        waiting += children
    return found


def resident_bytes(pid: int, *, at_least: int) -> int:
    """The resident memory of `pid` and its descendants; 0 where there are fewer than `at_least` descendants, or where
    the kernel keeps no such lists. Pages that processes share count for each."""
    pids = _descendants(pid)
    if len(pids) <= at_least:
        return 0
    pages = 0
    for one in pids:
        try:
            pages += int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * _PAGE
