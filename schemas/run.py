"""A run: who it is, where it keeps its things, what it says when it is over."""

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from schemas.experiment import Experiment
from schemas.gate import GateVerdict

RunStatus = Literal["running", "finished", "failed", "cancelled", "crashed"]
MADE_OF_RUNS = ("sweep", "ablate", "tune", "grammars")
"""Flows, by their commands, whose run has no answers of its own: it is made of other runs, or of a corpus of schemas.
Each resumes by its own command, and writes its page itself."""


class CellContext(BaseModel):
    """What a run knows of the sweep that it is a cell of. start_limit_s: seconds that its engine may take to start;
    None where it goes on outside of its sweep."""

    model_config = ConfigDict(frozen=True)

    parent_run_id: str
    start_limit_s: float | None = None


class RunContext(BaseModel):
    """What every step of a run knows of it. home: ASSAY_HOME; folder: this run's own files below it.

    revision: the revision that this session's rows carry; a resumed run has a higher one than before."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    home: Path
    folder: Path
    revision: int
    resumed: bool
    started_at: datetime
    experiment: Experiment
    max_time_s: float | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    prefect_flow_run_id: str | None = None
    cell: CellContext | None = None
    """What it is a cell of; None for a run of its own."""

    @property
    def samples_file(self) -> Path:
        """The rendered and encoded samples, between the steps."""
        return self.folder / "samples.msgpack"

    @property
    def engine_log(self) -> Path:
        return self.folder / "engine.log"

    @property
    def report_file(self) -> Path:
        return self.folder / "report.html"

    @property
    def resolved_file(self) -> Path:
        """The whole config, as it ran."""
        return self.folder / "experiment.yaml"


class RunResult(BaseModel):
    """How a run ended. exit_code as the command line gives it: 0, or 1 with the reason in `error`; 3 where a gate
    failed, 2 where one cannot be judged. A run whose gates fail is finished all the same."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    name: str
    status: RunStatus
    exit_code: int
    error: str | None
    report: Path | None
    mlflow_run_id: str | None
    requests: int
    failed: int
    generate_s: float
    measured: int = 0
    """Requests of the benchmark's measured phases."""
    measured_failed: int = 0
    flow_rss_peak_bytes: int | None
    """The most memory that the flow process itself held; the engine's is among the metrics."""
    warnings: list[str]
    gates: list[GateVerdict] = []
