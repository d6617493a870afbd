"""What assay tells Prefect's event feed, so that automations can act on it."""

from prefect.events import emit_event

from schemas.run import RunContext, RunStatus

_NAMES: dict[RunStatus, str] = {
    "finished": "finished",
    "failed": "failed",
    "cancelled": "cancelled",
    "crashed": "failed",
}


def announce(run: RunContext, *, status: RunStatus, error: str | None, mlflow_run_id: str | None) -> None:
    """Emits `assay.run.finished`, `assay.run.failed` (crashed runs too) or `assay.run.cancelled`.

    The resource is the run, related to its Prefect flow run; the payload says how it ended and how to go on. Events
    leave by a queue of Prefect's own: a server that is away does not hold the run up."""
    announce_run(
        run_id=run.run_id,
        name=run.experiment.name,
        status=status,
        error=error,
        mlflow_run_id=mlflow_run_id,
        prefect_flow_run_id=run.prefect_flow_run_id,
    )


def announce_run(
    *,
    run_id: str,
    name: str,
    status: RunStatus,
    error: str | None,
    mlflow_run_id: str | None,
    prefect_flow_run_id: str | None,
) -> None:
    """The same for a run that is known by its row only."""
    related = []
    if prefect_flow_run_id is not None:
        related.append(
            {"prefect.resource.id": f"prefect.flow-run.{prefect_flow_run_id}", "prefect.resource.role": "flow-run"}
        )
    emit_event(
        event=f"assay.run.{_NAMES[status]}",
        resource={"prefect.resource.id": f"assay.run.{run_id}", "prefect.resource.name": name, "assay.status": status},
        related=related,
        payload={
            "run_id": run_id,
            "name": name,
            "status": status,
            "error": error,
            "mlflow_run_id": mlflow_run_id,
            "prefect_flow_run_id": prefect_flow_run_id,
            "resume": None if status == "finished" else f"assay run --resume {run_id}",
        },
    )
