"""Which engines stand between the cells of a sweep, which are ended, when they sleep. An engine is here what the shelf
sees of one: whether it lives, what it was built with, and that it can be ended; real ones are in tests/e2e."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from flows.shelf import Shelf, current, standing
from schemas.errors import EngineError
from tasks.engine.client import EngineClient, Standing
from tasks.engine.protocol import Built


@dataclass
class Seen:
    """What the shelf asks of an engine."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    returncode: int | None = None
    told: list[str] = field(default_factory=list)
    refuses: str | None = None
    built: bool = True

    @property
    def standing(self) -> Standing | None:
        built = Built(resolved={}, phases={}, sizes={})
        return Standing(model="m", options=self.options, built=built) if self.built else None

    def _do(self, what: str) -> None:
        if self.refuses == what:
            raise EngineError(f"no {what}")
        self.told.append(what)

    def close(self) -> None:
        self._do("close")

    def sleep(self) -> None:
        self._do("sleep")

    def wake(self) -> None:
        self._do("wake")


@pytest.fixture
def notes() -> list[str]:
    return []


def a_shelf(room: int, notes: list[str]) -> Shelf:
    return Shelf(room=room, note=notes.append)


def take(shelf: Shelf, group: str | None) -> Any:
    shelf.group = group
    return shelf.take()


def keep(shelf: Shelf, group: str | None, engine: Seen) -> bool:
    shelf.group = group
    return shelf.keep(cast(EngineClient, engine))


def test_the_next_cell_of_the_group_has_the_engine_that_stands(notes: list[str]) -> None:
    shelf, engine = a_shelf(1, notes), Seen("a")
    assert take(shelf, "a") is None
    assert keep(shelf, "a", engine)
    assert take(shelf, "a") is engine
    assert take(shelf, "a") is None  # it is the running cell's now
    assert engine.told == [] and notes == []


def test_another_group_ends_it_where_there_is_room_for_one(notes: list[str]) -> None:
    shelf, engine = a_shelf(1, notes), Seen("a")
    keep(shelf, "a", engine)
    assert take(shelf, "b") is None
    assert engine.told == ["close"]
    assert take(shelf, "a") is None


def test_a_cell_that_cannot_be_planned_takes_none_and_makes_room_for_its_own(notes: list[str]) -> None:
    shelf, engine = a_shelf(1, notes), Seen("a")
    keep(shelf, "a", engine)
    assert take(shelf, None) is None
    assert engine.told == ["close"]
    assert not keep(shelf, None, Seen("nobody's"))


def test_with_room_for_two_the_one_that_was_used_longest_ago_is_ended(notes: list[str]) -> None:
    shelf = a_shelf(2, notes)
    a, b, c = Seen("a"), Seen("b"), Seen("c")
    take(shelf, "a")
    keep(shelf, "a", a)
    take(shelf, "b")
    assert a.told == []  # two stand now, with the one that runs
    keep(shelf, "b", b)
    assert take(shelf, "a") is a
    keep(shelf, "a", a)
    assert take(shelf, "c") is None
    assert b.told == ["close"] and a.told == []
    keep(shelf, "c", c)
    assert take(shelf, "a") is a


def test_without_room_none_is_kept(notes: list[str]) -> None:
    shelf, engine = a_shelf(0, notes), Seen("a")
    assert take(shelf, "a") is None
    assert not keep(shelf, "a", engine)
    assert take(shelf, "a") is None


@pytest.mark.parametrize(
    "engine",
    [Seen("dead", returncode=-9), Seen("not built", built=False), Seen("traced", options={"trace_steps": 3})],
    ids=lambda engine: engine.name,
)
def test_one_that_serves_nobody_else_is_not_kept(engine: Seen, notes: list[str]) -> None:
    shelf = a_shelf(1, notes)
    assert not keep(shelf, "a", engine)
    assert take(shelf, "a") is None and engine.told == []  # whoever had it ends it


def test_those_that_wait_sleep_where_several_stand_and_can(notes: list[str]) -> None:
    shelf, sleeper, other = a_shelf(2, notes), Seen("a", options={"sleep_mode": True}), Seen("b")
    keep(shelf, "a", sleeper)
    keep(shelf, "b", other)
    assert sleeper.told == ["sleep"] and other.told == []
    assert take(shelf, "a") is sleeper
    assert sleeper.told == ["sleep", "wake"]


def test_one_alone_is_left_awake(notes: list[str]) -> None:
    shelf, sleeper = a_shelf(1, notes), Seen("a", options={"sleep_mode": True})
    keep(shelf, "a", sleeper)
    assert sleeper.told == []


def test_one_that_does_not_wake_is_ended_and_told_of(notes: list[str]) -> None:
    shelf, sleeper = a_shelf(2, notes), Seen("a", options={"sleep_mode": True}, refuses="wake")
    keep(shelf, "a", sleeper)
    assert take(shelf, "a") is None
    assert sleeper.told == ["sleep", "close"]
    assert notes == ["an engine that waited is gone: no wake"]


def test_one_that_does_not_fall_asleep_is_not_kept(notes: list[str]) -> None:
    shelf, sleeper = a_shelf(2, notes), Seen("a", options={"sleep_mode": True}, refuses="sleep")
    assert not keep(shelf, "a", sleeper)
    assert take(shelf, "a") is None
    assert notes == ["an engine could not be put to sleep, and is ended: no sleep"]


@pytest.fixture
def one(notes: list[str]) -> Iterator[Shelf]:
    with standing(room=2, note=notes.append) as shelf:
        yield shelf


def test_it_is_there_while_a_sweep_runs_and_ends_all_that_stand(notes: list[str]) -> None:
    assert current() is None
    a, b = Seen("a"), Seen("b")
    with pytest.raises(KeyboardInterrupt), standing(room=2, note=notes.append) as shelf:
        assert current() is shelf
        keep(shelf, "a", a)
        keep(shelf, "b", b)
        raise KeyboardInterrupt
    assert current() is None
    assert a.told == b.told == ["close"]


def test_a_sweep_in_a_sweep_is_refused(one: Shelf, notes: list[str]) -> None:
    with pytest.raises(RuntimeError, match="inside another"), standing(room=1, note=notes.append):
        pass
    assert current() is one
