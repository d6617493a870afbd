"""Runs the cells of a sweep, an ablation or a tuning: each as an experiment of its own, one after another.

A cell that fails, or takes too long, is recorded and the next one begins; an interrupt ends the whole."""

import contextlib
import datetime
import time
from collections.abc import Iterator, Sequence

from filelock import FileLock, Timeout
from prefect.exceptions import TerminationSignal

from flows.console import RunConsole
from flows.engine_slot import engine_slot
from flows.experiment import RunNotFinished, experiment
from flows.shelf import Shelf, standing
from flows.signals import Terminated
from schemas.errors import AssayError, ConfigError, GateFailed
from schemas.run import CellContext, RunStatus
from schemas.sweep import CellResult, CellState
from tasks.cells.expand import override
from tasks.cells.group import Turn
from tasks.cells.record import CellsRecord
from tasks.engine.keeper import OutOfTime
from tasks.record import mlflow_run
from warehouse.parquet import read_rows

_INTERRUPTS = (KeyboardInterrupt, Terminated, TerminationSignal)


class CellRunner:
    """record: where what became of each cell is written; base: the experiment's file; time_limit_s: seconds for an
    engine's start, and again for the answers; tags: of every cell's run; shelf: the engines that stand."""

    def __init__(
        self, record: CellsRecord, *, base: str, time_limit_s: float, tags: dict[str, str], shelf: Shelf
    ) -> None:
        self.record = record
        self._base = base
        self._time_limit_s = time_limit_s
        self._tags = tags
        self._shelf = shelf

    def run(self, turn: Turn, *, limit: int | None, resume: str | None = None) -> CellResult:
        """Runs one cell and records how it ended. resume: its run, where an earlier session began it.

        Raises only what interrupts the whole, after it is recorded."""
        planned = turn.planned
        if resume is not None and not read_rows(self.record.home, "runs", resume, columns=["run_id"]):
            resume = None  # it was cut before it had written anything
        began, started_at = time.monotonic(), datetime.datetime.now(datetime.UTC).isoformat()
        result = CellResult(
            cell=planned.cell,
            repeat=turn.repeat,
            order_index=turn.order_index,
            state="running",
            run_id=resume,
            engine_group=planned.group,
            started_at=started_at,
        )
        self.record.cells([result])
        shelf = self._shelf
        shelf.group, shelf.run_id = planned.group, resume
        shelf.cell = CellContext(parent_run_id=self.record.run_id, start_limit_s=self._time_limit_s)
        shelf.begun = lambda run_id: self.record.cells([result.model_copy(update={"run_id": run_id})])
        state: CellState = "cancelled"
        error: str | None = "interrupted"
        try:
            self._run(planned.cell.overrides, limit=limit, resume=resume)
        except _INTERRUPTS:
            raise
        except Exception as failed:  # noqa: BLE001 - whatever a cell dies of is its own, and is recorded
            state, error = _how(failed)
        else:
            state, error = "finished", None
        finally:
            result = result.model_copy(
                update={
                    "state": state,
                    "error": error,
                    "run_id": shelf.run_id,
                    "built": self._built(shelf.run_id),
                    "seconds": time.monotonic() - began,
                }
            )
            self.record.cells([result])
            shelf.cell = shelf.group = None
        return result

    def _run(self, overrides: Sequence[str], *, limit: int | None, resume: str | None) -> None:
        if resume is not None:
            experiment(config=self._base, resume=resume, max_time=f"{self._time_limit_s:.3f}s")
            return
        own = [override(f"tags.{key}", value) for key, value in self._tags.items()]
        experiment(
            config=self._base,
            limit=limit or 0,
            overrides=[*overrides, *own, "gates=[]"],
            max_time=f"{self._time_limit_s:.3f}s",
        )

    def _built(self, run_id: str | None) -> bool | None:
        """Whether the run built its engine; None if it had none."""
        if run_id is None:
            return None
        rows = read_rows(self.record.home, "engines", run_id, columns=["engine_id", "built_by"])
        return any(row["built_by"] is None for row in rows) if rows else None


@contextlib.contextmanager
def cell_runner(
    record: CellsRecord, *, base: str, time_limit_s: float, tags: dict[str, str], room: int, console: RunConsole
) -> Iterator[CellRunner]:
    """Who runs a sweep's cells, with the slot of engines held and what stands ended at last."""
    with engine_slot(console), standing(room=room, note=console.note) as shelf:
        yield CellRunner(record, base=base, time_limit_s=time_limit_s, tags=tags, shelf=shelf)


@contextlib.contextmanager
def recorded(record: CellsRecord, warnings: list[str]) -> Iterator[None]:
    """The row of the whole: running, and in the end how it ended, in the warehouse and in MLflow, which being down is a
    warning. Raises ConfigError if another session of it runs."""
    lock = FileLock(record.folder / "lock")
    try:
        lock.acquire(timeout=5)
    except Timeout as error:
        raise ConfigError.one(
            f"run {record.run_id} is running in another process", suggestion="wait for it, or end it first"
        ) from error
    status: RunStatus = "failed"
    reason: str | None = None
    try:
        record.begin()
        with mlflow_run.may_fail(warnings):
            record.tracked(mlflow_run.start_run(record.home, record.run_id))
        yield
        status = "finished"
    except _INTERRUPTS:
        status, reason = "cancelled", "interrupted"
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise
    finally:
        try:
            record.end(status=status, error=reason, warnings=warnings)
            with mlflow_run.may_fail(warnings):
                mlflow_run.end_run(record.home, record.run_id, interrupted=status == "cancelled")
        finally:
            lock.release()


def _how(error: Exception) -> tuple[CellState, str]:
    """The state of a cell that ended with this, and why in words."""
    if isinstance(error, GateFailed):
        return "finished", str(error)
    if isinstance(error, RunNotFinished):
        return ("timeout" if error.result.status == "cancelled" else "failed"), str(error)
    if isinstance(error, OutOfTime):
        return "timeout", str(error)
    return "failed", str(error) if isinstance(error, AssayError) else f"{type(error).__name__}: {error}"
