"""Everything that MLflow is to know of one run, as one document that can wait on disk."""

from pydantic import BaseModel, ConfigDict

VERSION = 1
"""Of the document's form; a spool written by a newer assay is left alone."""


PARENT = "assay.parent_run_id"
"""The tag of a cell's run: the run of assay that it is below."""
RUN_PAGE = "mlflow-run-page:"
"""Stands for the run's page, whose address is only known once MLflow has the run."""


class Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class TrackedDataset(Part):
    """One dataset as an input of a run. digest: at most 36 characters, MLflow's bound. source, profile: JSON text."""

    name: str
    digest: str
    source_type: str
    source: str
    profile: str
    context: str


class TrackedRun(Part):
    """One run of MLflow: the experiment itself (key ""), or one of its cells (key `quality.free`).

    The key is a tag; it is how a replay finds what an earlier attempt made. Times in ms since the epoch."""

    key: str
    name: str
    started_ms: int
    ended_ms: int | None
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    datasets: list[TrackedDataset]


class TrackedFile(Part):
    """An artifact. file: its path below the run's folder; folder: where it goes among the artifacts, "" for the top."""

    file: str
    folder: str = ""


class Publication(Part):
    """One run with its children and files. Where a tag says RUN_PAGE, the address of its page in MLflow is put.

    below: the run of assay (a sweep) whose run in MLflow is the parent's own parent; None for a run of its own. status:
    MLflow's word (RUNNING, FINISHED, FAILED, KILLED), which the children share. step and metrics_ms: what every
    metric is logged under, fixed here so that a value that is logged again is the same value and not another one."""

    version: int = VERSION
    run_id: str
    below: str | None = None
    experiment: str
    status: str
    step: int
    metrics_ms: int
    parent: TrackedRun
    children: list[TrackedRun]
    files: list[TrackedFile]
