"""Who keeps a run's engine going: starts the process, and another one when it died, hung or ran out of memory.

Each start is a row of `engine_starts` and has a log of its own: engine.log, engine.1.log and so on.
"""

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from schemas.errors import RunError
from schemas.metric import Aggregate
from schemas.plan import EnginePlan, ModelFacts
from tasks.engine.client import START_TIMEOUT_S, EngineClient
from tasks.engine.failure import EngineDied, Shortage, kernel_kills, shortage
from tasks.engine.ladder import step_down
from tasks.session import Session

While = Literal["building", "answering"]
_SIGNALLED = 128
"""Exit statuses above this are those of a process that a signal ended."""
_END = 1
"""The row of a start's end comes after the one that says that it is ready."""


class OutOfTime(RunError):
    """The run's time was over before the engine was ready."""


@dataclass(frozen=True, kw_only=True)
class Next:
    """How to go on after an engine's end. plan: what to ask of the next one; suspected: whether a request may be what
    it died of; rung: what there is less of."""

    plan: EnginePlan
    suspected: bool
    rung: str | None = None


class EngineKeeper:
    """One session's engine, over its deaths. A context manager: leaving it ends the process that runs.

    client: the process that runs now. start: starts one with its log there. warn: says what went wrong; note: that it
    goes on. hand_on: takes an engine that is still good when the run is over; it is ended where there is none, or it
    does not want it.
    restarts: after a death or a hang, so far; ladder: what was said of each rung; lowered: the user's own numbers that
    rungs lowered, in words."""

    def __init__(
        self,
        session: Session,
        *,
        first: EngineClient,
        start: Callable[[Path], EngineClient],
        warn: Callable[[str], None],
        note: Callable[[str], None],
        hand_on: Callable[[EngineClient], bool] | None = None,
    ) -> None:
        self.client = first
        self.restarts = 0
        self.ladder: list[str] = []
        self.lowered: list[str] = []
        self.limits = session.run.experiment.vllm.failures
        self._session = session
        self._start = start
        self._warn = warn
        self._note = note
        self._hand_on = hand_on
        self._kinds: list[str] = []
        self._known: set[str] = set()
        self._row: dict[str, Any] | None = None
        self._number = -1
        self._failed_at: float | None = None
        self._began()

    def __enter__(self) -> "EngineKeeper":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None or self._hand_on is None or not self._hand_on(self.client):
            self.client.close()
        if error is None:
            answered = self._row is not None and "ready_at" in self._row
            self._ended(why="done" if answered else "stopped")
            return
        try:
            self._ended(why="stopped")
        except Exception as second:  # noqa: BLE001 - the first error is the one to report; this one goes with it
            error.add_note(f"how the engine ended could not be written either: {second}")

    @property
    def starts(self) -> int:
        """How many processes there were, with the one that runs."""
        return self._number + 1

    def anew(self) -> None:
        """Starts another process in place of one that was taken over and is not the engine that is wanted."""
        self.client.close()
        self._ended(why="stopped")
        self.client = self._start(self._log_path())
        self._began()

    def asked(self, plan: EnginePlan) -> None:
        """Notes what this start is asked for."""
        if self._row is not None:
            self._row["requested"] = {planned.option: planned.value for planned in plan.options}

    def ready(self, engine_id: str) -> None:
        """Notes that the engine answers, as `engine_id`."""
        if self._row is None:
            return
        self._row |= {"engine_id": engine_id, "ready_at": _now()}
        self._session.store.write("engine_starts", [self._row])
        if self._failed_at is not None:
            self._note(f"the engine is ready again, {time.monotonic() - self._failed_at:.1f} s after it failed")
            self._failed_at = None

    def first_time(self, engine_id: str) -> bool:
        """Whether no engine of this session was this one so far."""
        if engine_id in self._known:
            return False
        self._known.add(engine_id)
        return True

    def metrics(self) -> list[Aggregate]:
        """`engine.restarts` and `engine.rungs`: how often it was started again, and built again with less."""
        return [
            Aggregate(
                scope="engine",
                name=f"engine.{name}",
                arm=None,
                value=value,
                unit=unit,
                direction="lower",
                n=self.starts,
                n_failed=0,
                method=method,
            )
            for name, value, unit, method in (
                ("restarts", self.restarts, "restarts", "after it died or hung, in the last session"),
                ("rungs", len(self._kinds), "rungs", "after it ran out of memory, in the last session"),
            )
        ]

    def time_left(self, deadline: float | None) -> float:
        """Seconds that a start may take: what is left of the run's time, at most what any start may take."""
        return START_TIMEOUT_S if deadline is None else max(0.0, min(START_TIMEOUT_S, deadline - time.monotonic()))

    def after(
        self, died: EngineDied, *, plan: EnginePlan, model: ModelFacts, while_: While, in_flight: int, left: int = 0
    ) -> Next:
        """Ends what is left of the engine that died and starts the next one, with the same plan or one of less.

        in_flight: requests that it had; left: those that it had not been given. Raises EngineDied where there shall be
        no further engine: what it died of is no accident, or it died too often."""
        lack = shortage(died, killed_by_kernel=self._kernel_killed())
        if lack is not None:
            after = self._down(died, lack, plan=plan, model=model, while_=while_, in_flight=in_flight)
        elif died.how == "timeout" or (while_ != "answering" and not _by_signal(died)):
            self._ended(why="failed", while_=while_, died=died, in_flight=in_flight)
            raise died
        else:
            after = self._again(died, plan=plan, while_=while_, in_flight=in_flight, left=left)
        self._failed_at = time.monotonic()
        self.client.close()
        self.client = self._start(self._log_path())
        self._began(rung=after.rung)
        self._session.restarted |= while_ == "answering"
        return after

    def _down(
        self, died: EngineDied, lack: Shortage, *, plan: EnginePlan, model: ModelFacts, while_: While, in_flight: int
    ) -> Next:
        told = f"the engine ran out of memory while {while_} ({lack.words})"
        rung = None
        if len(self._kinds) < self.limits.rungs:
            rung = step_down(plan, model=model, shortage=lack, taken=self._kinds, while_=while_)
        if rung is None:
            why = _no_rung(lack, taken=len(self._kinds), limit=self.limits.rungs)
            self._ended(why="out_of_memory", while_=while_, died=died, in_flight=in_flight, message=f"{told}; {why}")
            raise died.after(f"{told}; {why}")
        told += f"; it is built again with less: {rung.text}"
        self._kinds.append(rung.kind)
        self.ladder.append(f"{rung.text}, after: {lack.words}")
        self.lowered += rung.lowered
        self._ended(why="out_of_memory", while_=while_, died=died, in_flight=in_flight, message=told)
        self._warn(told)
        return Next(plan=rung.plan, suspected=False, rung=rung.text)

    def _again(self, died: EngineDied, *, plan: EnginePlan, while_: While, in_flight: int, left: int) -> Next:
        hung = died.how == "hung"
        told = f"the engine {'hung' if hung else 'died'} while {while_} ({died.words})"
        why = "hung" if hung else "died"
        if self.restarts >= self.limits.restarts:
            told += f"; it was started again {self.restarts} times, no more (engine.failures.restarts)"
            self._ended(why=why, while_=while_, died=died, in_flight=in_flight, message=told)
            raise died.after(told) if self.limits.restarts else died
        self.restarts += 1
        told += f"; started again, {self.restarts} of at most {self.limits.restarts}"
        if while_ == "answering":
            told += f", with the {in_flight + left:,} requests that it had not answered, {in_flight:,} of them begun"
        self._ended(why=why, while_=while_, died=died, in_flight=in_flight, message=told)
        self._warn(told)
        return Next(plan=plan, suspected=while_ == "answering")

    def _began(self, *, rung: str | None = None) -> None:
        self._number += 1
        self._kills = kernel_kills()
        # One that stands already is this run's from now on.
        since = 0.0 if self.client.standing is not None else time.monotonic() - self.client.started_at
        self._row = {
            "start_id": f"{self._session.run.revision}-{self._number}",
            "order_index": self._number,
            "engine_id": None,
            "started_at": _now() - datetime.timedelta(seconds=since),
            "rung": rung,
            "log_path": str(self.client.log_path),
        }

    def _ended(
        self,
        *,
        why: str,
        while_: While | None = None,
        died: EngineDied | None = None,
        in_flight: int | None = None,
        message: str | None = None,
    ) -> None:
        """Writes how this start ended; once."""
        if self._row is None:
            return
        row, self._row = self._row, None
        row |= {
            "ended_at": _now(),
            "ended_why": why,
            "ended_while": while_,
            "error": None if died is None else died.words,
            "in_flight": in_flight,
            "message": message,
        }
        self._session.store.write("engine_starts", [row], later=_END)

    def _kernel_killed(self) -> bool:
        now = kernel_kills()
        return now is not None and self._kills is not None and now > self._kills

    def _log_path(self) -> Path:
        """The next free name: the logs of engines that ended are kept, those of an earlier session too."""
        first, number = self._session.run.engine_log, 1
        while (path := first.with_suffix(f".{number}{first.suffix}")).exists():
            number += 1
        return path


def _by_signal(died: EngineDied) -> bool:
    return died.how == "exit" and died.status is not None and died.status > _SIGNALLED


def _no_rung(lack: Shortage, *, taken: int, limit: int) -> str:
    if lack.where == "weights":
        return (
            "the weights alone do not fit, and nothing of the engine could be less: take a smaller model, or one with "
            "fewer bits a weight"
        )
    if limit == 0:
        return "engine.failures.rungs is 0, so nothing smaller was tried"
    if taken >= limit:
        return f"it had been built with less {taken} times already, no more (engine.failures.rungs)"
    return "nothing of it can be made smaller"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
