"""Engines that stand between the cells of a sweep, so that one build serves many cells.

They are kept here and not handed from flow to flow, as a flow's parameters are recorded. There is at most one shelf in
a process, while a sweep runs; without one, every run ends its own engine."""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator

from schemas.errors import EngineError
from schemas.run import CellContext
from tasks.engine.client import EngineClient
from tasks.engine.reuse import can_be_kept


class Shelf:
    """room: how many engines may stand at once, with the one that a running cell has; 0: none is kept. note: says what
    happens here.

    cell: what the run that begins next is a cell of; group: the engine that it needs; begun: is told the run's id as
    soon as it has one, which then stands in run_id."""

    def __init__(self, *, room: int, note: Callable[[str], None]) -> None:
        self.cell: CellContext | None = None
        self.group: str | None = None
        self.run_id: str | None = None
        self.begun: Callable[[str], None] = lambda run_id: None
        self._room = room
        self._note = note
        self._standing: OrderedDict[str, EngineClient] = OrderedDict()
        self._asleep: set[str] = set()

    def take(self) -> EngineClient | None:
        """The engine of the group that is needed, awake; None where none stands. The others make room for one more: the
        one that was used longest ago is ended first."""
        engine = None if self.group is None else self._standing.pop(self.group, None)
        if engine is not None:
            try:
                if self.group in self._asleep:
                    self._asleep.remove(self.group)
                    engine.wake()
            except EngineError as error:
                self._note(f"an engine that waited is gone: {error}")
                engine.close()
                engine = None
        while self._standing and len(self._standing) >= self._room:
            group, oldest = self._standing.popitem(last=False)
            self._asleep.discard(group)
            oldest.close()
        return engine

    def keep(self, engine: EngineClient) -> bool:
        """Takes a cell's engine when the cell is over. False for one that serves nobody else."""
        if not self._room or self.group is None or self.group in self._standing or not can_be_kept(engine):
            return False
        try:
            if self._room > 1 and _sleeps(engine):
                engine.sleep()
                self._asleep.add(self.group)
        except EngineError as error:
            self._note(f"an engine could not be put to sleep, and is ended: {error}")
            return False
        self._standing[self.group] = engine
        return True

    def close(self) -> None:
        """Ends every engine that stands."""
        while self._standing:
            self._standing.popitem()[1].close()


_shelf: Shelf | None = None


@contextlib.contextmanager
def standing(*, room: int, note: Callable[[str], None]) -> Iterator[Shelf]:
    """A shelf for the runs that follow in this process; its engines end with it."""
    global _shelf  # noqa: PLW0603 - one a process, as the module says
    if _shelf is not None:
        raise RuntimeError("a sweep cannot run inside another one")
    _shelf = Shelf(room=room, note=note)
    try:
        yield _shelf
    finally:
        _shelf.close()
        _shelf = None


def current() -> Shelf | None:
    """The shelf of the sweep that runs; None where none does."""
    return _shelf


def _sleeps(engine: EngineClient) -> bool:
    return engine.standing is not None and bool(engine.standing.options.get("sleep_mode"))
