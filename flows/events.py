"""What assay tells Prefect's event feed, so that automations can act on it."""

from collections.abc import Sequence

from prefect.events import emit_event

from schemas.gate import GateVerdict
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
    emit_event(
        event=f"assay.run.{_NAMES[status]}",
        resource={"prefect.resource.id": f"assay.run.{run_id}", "prefect.resource.name": name, "assay.status": status},
        related=_related(prefect_flow_run_id),
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


def announce_gates(
    run: RunContext, *, gates: Sequence[GateVerdict], error: str | None, mlflow_run_id: str | None
) -> None:
    """Emits `assay.gate.failed`, once for a run, if a gate of it failed or cannot be judged. The resource is the run;
    the payload's `error` says it in a sentence, `gates` has each of these gates."""
    announce_failed_gates(
        run_id=run.run_id,
        name=run.experiment.name,
        gates=gates,
        error=error,
        mlflow_run_id=mlflow_run_id,
        prefect_flow_run_id=run.prefect_flow_run_id,
    )


def announce_failed_gates(
    *,
    run_id: str,
    name: str,
    gates: Sequence[GateVerdict],
    error: str | None,
    mlflow_run_id: str | None,
    prefect_flow_run_id: str | None,
) -> None:
    """The same for a run that is known by its row only."""
    wrong = [each.model_dump(mode="json") for each in gates if each.fails or each.verdict == "refused"]
    if not wrong:
        return
    emit_event(
        event="assay.gate.failed",
        resource={"prefect.resource.id": f"assay.run.{run_id}", "prefect.resource.name": name, "assay.gates": "failed"},
        related=_related(prefect_flow_run_id),
        payload={
            "run_id": run_id,
            "name": name,
            "error": error,
            "gates": wrong,
            "mlflow_run_id": mlflow_run_id,
            "prefect_flow_run_id": prefect_flow_run_id,
        },
    )


def _related(prefect_flow_run_id: str | None) -> list[dict[str, str]]:
    if prefect_flow_run_id is None:
        return []
    return [{"prefect.resource.id": f"prefect.flow-run.{prefect_flow_run_id}", "prefect.resource.role": "flow-run"}]
