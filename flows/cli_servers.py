"""The commands around Prefect and MLflow: servers and workers, deployments, what MLflow missed."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json

app = typer.Typer()
PrefectPort = Annotated[int, typer.Option("--prefect-port", help="Where Prefect's pages are.")]
MlflowPort = Annotated[int, typer.Option("--mlflow-port", help="Where MLflow's pages are.")]


@app.command()
def up(
    prefect_port: PrefectPort = 4200,
    mlflow_port: MlflowPort = 5000,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when all is healthy; it goes on.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only say what is up; exit code 1 if nothing is.")] = False,
    json_: Json = False,
) -> None:
    """Start the Prefect server, the MLflow server and a worker for each pool, on this machine only.

    Registers the deployments of prefect.yaml: launch them from Prefect's pages, or let their schedules do it. While it
    is up, `assay run` reports to the same servers. Ctrl-C or `assay down` stops all; a run in progress can be resumed.
    """
    from flows.commands import up as command  # noqa: PLC0415

    if status:
        raise typer.Exit(command.status(as_json=json_))
    raise typer.Exit(command.up(prefect_port=prefect_port, mlflow_port=mlflow_port, detach=detach))


@app.command()
def down() -> None:
    """Stop what `assay up` started, and wait until it has."""
    from flows.commands import up as command  # noqa: PLC0415

    raise typer.Exit(command.down())


@app.command()
def worker(pool: Annotated[str, typer.Argument(metavar="POOL", help="gpu, cpu, or clients.")]) -> None:
    """Become Prefect's worker for a pool: what a service on a GPU host runs. ASSAY_PREFECT_API_URL names the server.

    gpu runs experiments, cpu what needs no engine, clients this machine's part of loads that several machines send.
    """
    from flows.commands.worker import work  # noqa: PLC0415

    work(pool=pool)


@app.command()
def deploy(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Another prefect.yaml than the one here.")
    ] = None,
) -> None:
    """Register pools, limits, deployments and automations with a Prefect server; again after configs were added.

    The server is the one that ASSAY_PREFECT_API_URL names, else that of `assay up`. The form's choices of experiments,
    models and datasets are those that stand here now.
    """
    from flows.commands.worker import deploy as register  # noqa: PLC0415

    raise typer.Exit(register(file=file))


@app.command()
def ui(
    mlflow_port: MlflowPort = 5000,
    prefect_port: PrefectPort = 4200,
) -> None:
    """Serve the recorded runs in MLflow's and Prefect's pages, on this machine only, until Ctrl-C."""
    from flows.commands.ui import serve  # noqa: PLC0415

    raise typer.Exit(serve(mlflow_port=mlflow_port, prefect_port=prefect_port))


@app.command()
def sync(json_: Json = False) -> None:
    """Bring to MLflow what it missed while it was down, slow or full. Exit codes: 0 nothing is left, 1 something is.

    A run does that too, for the runs before it, within seconds; this takes as long as it takes.
    """
    from flows.commands.sync import sync_tracking  # noqa: PLC0415

    raise typer.Exit(sync_tracking(as_json=json_))
