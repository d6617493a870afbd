"""The runs of a sweep or an ablation, one after another, with what an earlier session of it had done left alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.cells import CellRunner, cell_runner, recorded
from flows.cells_page import write_page
from flows.console import RunConsole
from schemas.errors import ConfigError, RunError
from schemas.sweep import CellResult, CellSpec, SweepResult
from tasks.cells.group import PlannedCell, Turn
from tasks.cells.record import CellsRecord, stored_cells, stored_sweep
from tasks.config.document import config_hash

_OVER = ("finished", "failed", "timeout")
_LOST = ("failed", "timeout")
Before = Mapping[tuple[int, int], CellResult]
"""What an earlier session did, by cell and repeat."""


class CellsNotFinished(RunError):
    """Some cells failed or took too long; the others are done, and `result` has all of them."""

    def __init__(self, result: SweepResult) -> None:
        lost = [each for each in result.cells if each.state != "finished"]
        shown = ", ".join(f"{each.cell.name} ({each.state})" for each in lost[:3])
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        super().__init__(f"{len(lost)} of {len(result.cells)} runs did not finish: {shown}{more}")
        self.result = result


@dataclass(frozen=True, kw_only=True)
class Work:
    """All runs of a sweep or an ablation. flow: which of them; base: the experiment's file; planned: every cell; order:
    the runs as they come; limit: the most samples of a dataset; time_limit_s, tags: as `CellRunner` takes them; room:
    as `Shelf` does."""

    record: CellsRecord
    flow: str
    name: str
    base: str
    planned: Sequence[PlannedCell]
    order: Sequence[Turn]
    limit: int | None
    time_limit_s: float
    tags: dict[str, str]
    room: int

    @property
    def cells(self) -> list[CellSpec]:
        """By index."""
        return [each.cell for each in self.planned]


def run_work(
    work: Work,
    *,
    retry: bool,
    console: RunConsole,
    warnings: list[str],
    made_of: Callable[[Sequence[CellResult]], dict[str, Any]],
) -> SweepResult:
    """Runs what an earlier session has not, and writes the page, also where it is interrupted. retry: see `run_turns`.
    made_of: what the page shows beside the cells, from their results.

    Raises ConfigError where the experiment is another one than it began with."""
    record = work.record
    before = done_before(record.home, record, flow=work.flow, cells=work.cells, planned=work.planned, base=work.base)
    with recorded(record, warnings):
        record.cells(waiting(work.order, before=before))
        try:
            with cell_runner(
                record,
                base=work.base,
                time_limit_s=work.time_limit_s,
                tags=work.tags,
                room=work.room,
                console=console,
            ) as runner:
                run_turns(runner, work.order, before=before, retry=retry, limit=work.limit, console=console)
        finally:
            results = stored_cells(record.home, record.run_id, cells=work.cells)
            report = write_page(record, results=results, title=work.name, warnings=warnings, made_of=made_of)
    return SweepResult(
        run_id=record.run_id,
        name=work.name,
        status="finished",
        exit_code=exit_code(results),
        report=report,
        cells=results,
        warnings=warnings,
    )


def run_turns(
    runner: CellRunner,
    order: Sequence[Turn],
    *,
    before: Before,
    retry: bool,
    limit: int | None,
    console: RunConsole,
    on_done: Callable[[CellResult], None] = lambda _: None,
) -> None:
    """Runs what has not been run; a cell that an interrupt ended goes on with its own run. retry: those that failed or
    took too long run anew. on_done: is told how each ended, also those of an earlier session."""
    for number, turn in enumerate(order, start=1):
        earlier = before.get((turn.planned.cell.index, turn.repeat))
        at = f"run {number} of {len(order)}: {turn.planned.cell.name}"
        anew = earlier is not None and retry and earlier.state in _LOST
        if earlier is not None and earlier.state in _OVER and not anew:
            console.note(f"{at}: {earlier.state} before")
            on_done(earlier)
            continue
        console.title(at)
        found = runner.run(turn, limit=limit, resume=None if earlier is None or anew else earlier.run_id)
        if found.error is not None:
            console.warn(f"{at}: {found.state}: {found.error.splitlines()[0]}")
        on_done(found)


def waiting(order: Sequence[Turn], *, before: Before) -> list[CellResult]:
    """What is still to be run, before any of it is."""
    return [
        CellResult(
            cell=turn.planned.cell,
            repeat=turn.repeat,
            order_index=turn.order_index,
            state="waiting",
            engine_group=turn.planned.group,
        )
        for turn in order
        if (turn.planned.cell.index, turn.repeat) not in before
    ]


def experiments(planned: Sequence[PlannedCell]) -> list[str]:
    """The hash of each cell's whole config: what a session that goes on must find again."""
    return [config_hash(each.experiment) for each in planned]


def done_before(
    home: Path, record: CellsRecord, *, flow: str, cells: Sequence[CellSpec], planned: Sequence[PlannedCell], base: str
) -> Before:
    """What an earlier session did. Raises ConfigError where the experiment is another one now."""
    if not record.resumed:
        return {}
    _, stored = stored_sweep(home, record.run_id, flow=flow)
    if stored["experiments"] != experiments(planned):
        raise ConfigError.one(
            f"run {record.run_id} began with another content of the experiment",
            file=Path(base),
            suggestion="put back what it was, or begin anew",
        )
    return {(each.cell.index, each.repeat): each for each in stored_cells(home, record.run_id, cells=cells)}


def plan_words(planned: Sequence[PlannedCell], order: Sequence[Turn]) -> str:
    """How much there is to do, in words."""
    groups = {each.group for each in planned if each.group is not None}
    lost = sum(1 for each in planned if each.group is None)
    words = f"{len(planned)} cells, {len(order)} runs on {len(groups)} different engines"
    return f"{words}; {lost} cannot be planned" if lost else words


def exit_code(results: Sequence[CellResult]) -> int:
    """0 where every cell finished, else 1."""
    return 0 if all(each.state == "finished" for each in results) else 1
