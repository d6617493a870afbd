"""What the engine's processes and the client's own take of the processor and of memory."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TREE_S = 2.0
"""Between looks at who is whose child, which means every process of the machine: milliseconds. Readings between are of
the processes known, at some 15 µs each."""
LEAST_S = 0.05
"""The kernel counts processor time in ticks of 10 ms: over less than a few of them a share says nothing."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_Born = tuple[int, int]
"""A process by its number and the time of its start: numbers are given again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """cores: processor use since the reading before; None for the first, and for one that follows at once. rss_bytes:
    None where no process lives."""

    cores: float | None
    rss_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    parent: int
    cpu_s: float
    started: int
    rss_bytes: int


class Processes:
    """The trees of two processes: the engine's, and this one's without it."""

    def __init__(self, *, engine: int, own: int) -> None:
        self._root = engine
        self._own_root = own
        self._engine = _Group()
        self._client = _Group()
        self._looked_for: int | None = None
        self._looked_at = 0.0
        self._foreign: set[int] = set()

    def watch(self, engine: int) -> None:
        """The engine is this process's tree from the next reading on, which may be another thread's."""
        self._root = engine

    def read(self, now: float) -> tuple[Use, Use]:
        """The engine's and the client's. now: monotonic seconds."""
        root = self._root
        if root != self._looked_for:
            self._engine = _Group()
        if root != self._looked_for or now - self._looked_at >= TREE_S:
            self._look(root)
            self._looked_for, self._looked_at = root, now
        return self._engine.read(now), self._client.read(now)

    def on_gpu(self, pids: set[int]) -> tuple[int | None, int | None]:
        """Of the processes on a GPU, how many are the engine's, and how many neither that nor this one's.

        None where one of them cannot be seen from here, as in a container whose processes have other numbers than the
        driver knows them by: then it may be the engine."""
        unknown = pids - self._known
        if unknown - self._foreign:
            self._look(self._root)
            unknown = pids - self._known
        self._foreign |= unknown
        engine = len(pids & self._engine.pids)
        if all((PROC / str(pid)).exists() for pid in unknown):
            return engine, len(unknown)
        return engine or None, None

    @property
    def _known(self) -> set[int]:
        return self._engine.pids | self._client.pids

    def _look(self, root: int) -> None:
        children: dict[int, list[int]] = {}
        for folder in PROC.iterdir():
            if folder.name.isdigit() and (stat := _stat(int(folder.name))) is not None:
                children.setdefault(stat.parent, []).append(int(folder.name))
        self._engine.pids = _tree(root, children)
        self._client.pids = _tree(self._own_root, children) - self._engine.pids


class _Group:
    def __init__(self) -> None:
        self.pids: set[int] = set()
        self._cpu_s: dict[_Born, float] | None = None
        self._counted_at = 0.0

    def read(self, now: float) -> Use:
        stats = {(pid, stat.started): stat for pid in self.pids if (stat := _stat(pid)) is not None}
        rss_bytes = sum(stat.rss_bytes for stat in stats.values()) or None
        before, since = self._cpu_s, now - self._counted_at
        if before is not None and since < LEAST_S:
            return Use(cores=None, rss_bytes=rss_bytes)
        cpu_s = {born: stat.cpu_s for born, stat in stats.items()}
        self._cpu_s, self._counted_at = cpu_s, now
        if before is None or not stats:
            return Use(cores=None, rss_bytes=rss_bytes)
        used = sum(max(0.0, seconds - before.get(born, 0.0)) for born, seconds in cpu_s.items())
        return Use(cores=used / since, rss_bytes=rss_bytes)


def _tree(root: int, children: dict[int, list[int]]) -> set[int]:
    found, todo = {root}, [root]
    while todo:
        new: Iterable[int] = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
        found.update(new)
        todo.extend(new)
    return found


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None  # it ended meanwhile
    # A process's name stands in parentheses and may have spaces and parentheses in it.
    fields = text[text.rindex(b")") + 2 :].split()
    return _Stat(
        parent=int(fields[1]),
        cpu_s=(int(fields[11]) + int(fields[12])) * _TICK_S,
        started=int(fields[19]),
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
    )
