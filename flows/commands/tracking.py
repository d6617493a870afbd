"""MLflow's copy of a run that no flow drives: scored, rescored, imported."""

import os
from pathlib import Path
from typing import NamedTuple

from flows.runtime import prepare_environment
from flows.servers import running_up


class Told(NamedTuple):
    """mlflow_run_id: None where MLflow has not got it; warning: then why, and what brings it there."""

    mlflow_run_id: str | None
    warning: str | None


def tell_mlflow(home: Path, run_id: str) -> Told:
    """Brings a run to MLflow within seconds, or leaves it in the spool. MLflow being down is a warning: the warehouse
    has the run."""
    prepare_environment(home)
    up = running_up(home)
    if up is not None:
        for name, value in up.environment().items():
            os.environ.setdefault(name, value)
    from tasks.record import mlflow_run  # noqa: PLC0415 - after the environment that MLflow reads

    try:
        return Told(mlflow_run.publish_run(home, run_id), None)
    except mlflow_run.TrackingError as error:
        return Told(None, str(error))
