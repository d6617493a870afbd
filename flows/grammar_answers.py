"""The part of a run over a corpus that has a model: each backend's engine answers the schemas that it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.cells import cell_runner
from flows.console import RunConsole
from flows.turns import run_turns, waiting
from schemas.corpus import CorpusResult
from schemas.errors import RunError
from schemas.sweep import CellResult, CellSpec
from tasks.cells.group import PlannedCell, Turn
from tasks.cells.record import CellsRecord, result_of
from tasks.config.resolve import load_experiment
from tasks.corpus.ask_for import Asked
from tasks.corpus.generate import (
    Outcome,
    answer_rows,
    backend_cell,
    outcome,
    prompts_that_fit,
    write_experiment,
    write_rows,
)
from tasks.corpus.read import Corpus
from tasks.guide.backends import BackendFacts
from warehouse.parquet import read_rows

TIME_LIMIT_S = 3600.0
"""What a backend's engine may take to start, and again to answer: beyond it, its other schemas have no answer."""


class AnswersNotFinished(RunError):
    """The run of a backend failed or took too long; all else is done, and `result` has it."""

    def __init__(self, result: CorpusResult, lost: Sequence[CellResult]) -> None:
        words = [f"{each.cell.name} ({each.state}: {(each.error or 'no reason').splitlines()[0]})" for each in lost]
        super().__init__(f"not every backend's answers are there: {', '.join(words)}")
        self.result = result


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What is to be answered. file: the experiment that every backend's run is made of; fits: the schemas whose prompt
    fits the model, by case_id."""

    asked: Asked
    corpus: Corpus
    file: Path
    fits: set[str]


def to_be_answered(record: CellsRecord, asked: Asked, corpus: Corpus, *, folder: Path, console: RunConsole) -> Answers:
    """Writes the experiment and finds the prompts that fit. folder: the model's.

    Raises ConfigError for a model or an option that does not fit, before any schema is asked."""
    file = write_experiment(record.folder / "answers", asked=asked, corpus=corpus)
    with console.step("render prompts") as said:
        fits = prompts_that_fit(
            load_experiment(file), most=asked.max_prompt, folder=folder, cache=record.home / "cache"
        )
        left_out = len(corpus.cases) - len(fits)
        said.append(f"{len(fits):,} fit" + (f", {left_out:,} are skipped: too long" if left_out else ""))
    return Answers(asked=asked, corpus=corpus, file=file, fits=fits)


def answer(
    record: CellsRecord,
    answers: Answers,
    *,
    rows: Sequence[Mapping[str, Any]],
    facts: Mapping[str, BackendFacts],
    console: RunConsole,
) -> list[CellResult]:
    """Runs each backend's experiment that an earlier session has not, and writes `corpus_answers` after each.

    rows: those of `corpus_schemas`, of every schema and backend; facts: which backends an engine can use. A backend's
    run that fails is recorded, and the next one begins. Gives how each run ended."""
    cases = answers.corpus.cases
    statuses: dict[str, dict[str, str]] = {name: {} for name in answers.asked.backends}
    for row in rows:
        statuses[row["backend"]][row["case_id"]] = row["status"]

    def keep(backend: str, found: Outcome) -> None:
        written = answer_rows(cases, backend=backend, statuses=statuses[backend], fits=answers.fits, found=found)
        record.write("corpus_answers", written)

    order: list[Turn] = []
    for index, backend in enumerate(answers.asked.backends):
        fault = facts[backend].engine_fault
        taken = [
            case for case in cases if case.case_id in answers.fits and statuses[backend][case.case_id] == "accepted"
        ]
        if fault is not None:
            keep(backend, Outcome(unusable=f"no engine can use {backend}: {fault}"))
        elif not taken:
            console.note(f"{backend} takes none of the schemas: nothing is asked of it")
            keep(backend, Outcome())
        else:
            file = write_rows(answers.file.parent / backend, taken)
            cell = backend_cell(answers.file, rows=file, backend=backend, index=index)
            order.append(_turn(cell, answers.file, place=len(order)))
    if not order:
        return []
    cells = {turn.planned.cell.index: turn.planned.cell for turn in order}
    stored = read_rows(record.home, "sweep_cells", record.run_id) if record.resumed else []
    before = {
        (row["cell_index"], row["repeat"]): result_of(row, cells[row["cell_index"]])
        for row in stored
        if row["cell_index"] in cells
    }
    record.cells(waiting(order, before=before))
    ended: list[CellResult] = []

    def on_done(result: CellResult) -> None:
        ended.append(result)
        keep(result.cell.name, outcome(record.home, run_id=result.run_id, error=result.error))

    with cell_runner(
        record,
        base=str(answers.file),
        time_limit_s=TIME_LIMIT_S,
        tags={"grammars": record.run_id},
        room=0,
        console=console,
    ) as runner:
        run_turns(runner, order, before=before, retry=True, limit=None, console=console, on_done=on_done)
    return ended


def _turn(cell: CellSpec, base: Path, *, place: int) -> Turn:
    """No plan is made before: no two backends can share an engine."""
    experiment = load_experiment(base, overrides=cell.overrides)
    planned = PlannedCell(cell=cell, experiment=experiment, plan=None, group=None)
    return Turn(planned=planned, repeat=0, order_index=place)
