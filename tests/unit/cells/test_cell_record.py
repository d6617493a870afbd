"""What a sweep writes of itself, and reads back when it goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
from real_runs import result

from schemas.errors import ConfigError
from schemas.run import MADE_OF_RUNS, CellContext
from tasks.cells.record import CellsRecord, cell_row, config_hash, specs_of, stored_cells, stored_sweep
from tasks.record import stage
from tasks.record.open import open_run, resumable_run
from tasks.session import Session
from warehouse.query import query
from warehouse.schema import TABLES

SWEEP = "20261128T150000-aaaaaa"
CELLS = [result(0), result(1, state="waiting", seconds=None), result(1, repeat=1, state="waiting", seconds=None)]


def a_record(home: Path, *, run_id: str = SWEEP, flow: str = "sweep", config: Any = None) -> CellsRecord:
    return CellsRecord(
        home=home,
        run_id=run_id,
        flow=flow,
        name="mine",
        config=config or {"cells": [each.cell.model_dump(mode="json") for each in CELLS[:2]]},
        tags={"team": "blue"},
        prefect_flow_run_id="flow-1",
    )


def test_the_whole_is_a_row_of_runs_that_says_how_it_ended(tmp_path: Path) -> None:
    record = a_record(tmp_path)
    assert not record.resumed
    record.begin()
    sql = "SELECT flow, name, status, parent_run_id, tags['team'], ended_at IS NULL, config_hash FROM runs"
    hashed = config_hash(record._row["config"])
    assert query(home=tmp_path, sql=sql).rows == [("sweep", "mine", "running", None, "blue", True, hashed)]
    record.end(status="failed", error="OSError: no", warnings=["a", "b", "a"])
    sql = "SELECT status, error, warnings, ended_at IS NULL FROM runs"
    assert query(home=tmp_path, sql=sql).rows == [("failed", "OSError: no", ["a", "b"], False)]


def test_the_last_state_of_a_cell_is_the_one_that_counts(tmp_path: Path) -> None:
    record = a_record(tmp_path)
    record.begin()
    record.cells(CELLS)
    running = CELLS[1].model_copy(update={"state": "running", "started_at": "2026-11-28T15:00:00+00:00"})
    record.cells([running])
    record.cells([running.model_copy(update={"run_id": "r", "state": "timeout", "error": "late", "seconds": 2.5})])
    sql = "SELECT cell_index, repeat, state, cell_run_id, error, epoch(ended_at - started_at) FROM sweep_cells"
    sql += " ORDER BY ALL"
    expected = [
        (0, 0, "finished", None, None, None),
        (1, 0, "timeout", "r", "late", 2.5),
        (1, 1, "waiting", None, None, None),
    ]
    assert query(home=tmp_path, sql=sql).rows == expected
    record.end(status="finished", error=None, warnings=[])  # compacts
    assert query(home=tmp_path, sql=sql).rows == expected


def test_it_goes_on_with_what_was_written_and_writes_over_it(tmp_path: Path) -> None:
    first = a_record(tmp_path)
    first.begin()
    first.cells(CELLS)
    began = query(home=tmp_path, sql="SELECT started_at FROM runs").rows
    second = a_record(tmp_path)
    assert second.resumed
    specs = [each.cell for each in CELLS[:2]]
    assert stored_cells(tmp_path, SWEEP, cells=specs) == [
        each.model_copy(update={"started_at": None}) for each in sorted(CELLS, key=lambda each: each.order_index)
    ]
    second.begin()
    second.cells([CELLS[1].model_copy(update={"state": "finished"})])
    second.end(status="finished", error=None, warnings=[])
    states = query(home=tmp_path, sql="SELECT state FROM sweep_cells ORDER BY cell_index, repeat").rows
    assert states == [("finished",), ("finished",), ("waiting",)]
    assert query(home=tmp_path, sql="SELECT started_at FROM runs").rows == began
    assert query(home=tmp_path, sql="SELECT status FROM runs").rows == [("finished",)]


def test_a_row_has_every_column_that_the_table_has() -> None:
    columns = {column.name for column in TABLES["sweep_cells"].columns}
    assert set(cell_row(CELLS[0])) == columns - {"run_id", "revision"}


def test_a_stored_sweep_is_found_by_its_id_or_as_the_last_one(tmp_path: Path) -> None:
    later = "20261128T160000-bbbbbb"
    for run_id in (SWEEP, later):
        a_record(tmp_path, run_id=run_id).begin()
    a_record(tmp_path, run_id="20261128T170000-cccccc", flow="ablate", config={"cells": []}).begin()
    assert stored_sweep(tmp_path, "last", flow="sweep")[0] == later
    found, config = stored_sweep(tmp_path, SWEEP, flow="sweep")
    assert found == SWEEP and specs_of(config) == [each.cell for each in CELLS[:2]]
    with pytest.raises(ConfigError, match=f"no run {SWEEP} of `assay ablate`"):
        stored_sweep(tmp_path, SWEEP, flow="ablate")
    with pytest.raises(ConfigError, match=f"did you mean `{SWEEP}`"):
        stored_sweep(tmp_path, SWEEP[:-1] + "b", flow="sweep")
    with pytest.raises(ConfigError, match=r"no run last of `assay sweep`.*`assay runs` lists them"):
        stored_sweep(tmp_path / "empty", "last", flow="sweep")


@pytest.mark.parametrize("flow", MADE_OF_RUNS)
def test_it_is_no_run_that_answers(tmp_path: Path, flow: str) -> None:
    a_record(tmp_path, flow=flow).begin()
    for wanted in (SWEEP, "last"):
        with pytest.raises(ConfigError, match=f"assay {flow} --resume {SWEEP}"):
            resumable_run(tmp_path, wanted)


def test_a_cell_that_goes_on_outside_of_its_sweep_still_belongs_to_it(tmp_path: Path) -> None:
    cell = CellContext(parent_run_id=SWEEP, start_limit_s=9.0)
    run = open_run(home=tmp_path, file="quickstart", limit=1, cell=cell)
    stage.begin(Session(run))
    again = open_run(home=tmp_path, file=None, resume=run.run_id)
    assert again.cell == CellContext(parent_run_id=SWEEP, start_limit_s=None)
    stage.begin(Session(again))
    assert query(home=tmp_path, sql="SELECT parent_run_id FROM runs").rows == [(SWEEP,)]
    assert open_run(home=tmp_path, file=None, resume=run.run_id, cell=cell).cell == cell


def test_the_config_is_told_apart_by_its_content_alone() -> None:
    assert config_hash({"a": 1, "b": [2]}) == config_hash(json.loads('{"b": [2], "a": 1}'))
    assert config_hash({"a": 1}) != config_hash({"a": 2})
