"""Registers with a Prefect server what it needs to run assay: pools, a limit for this host's engines, deployments,
automations. All of it can be repeated."""

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect.cli import app as prefect_command
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker
from ruamel.yaml import YAML

from flows.automations import install
from flows.engine_slot import ensure_slot, slot_name
from flows.launched import COMMAND
from flows.pools import POOLS
from schemas.errors import ConfigError, RunError

MAINTAIN = "maintain/hourly"


def register(*, file: Path) -> Iterator[str]:
    """Registers everything in this prefect.yaml, and gives a line for each thing when it is there; the pools first,
    since workers wait for them. Raises ConfigError or RunError."""
    with get_client(sync_client=True) as client:
        for pool in POOLS:
            yield _pool(client, pool)
        ensure_slot(client)
        yield f"limit       {slot_name()}: one engine at a time"
        names = _deployment_names(file)
        _deploy(file)
        ids = {}
        for name in (*names, MAINTAIN):
            try:
                ids[name] = client.read_deployment_by_name(name).id
            except ObjectNotFound as error:
                raise RunError(f"{file}: the deployment {name} is not at the server") from error
        yield from (f"deployment  {name}" for name in names)
        yield from (f"automation  {name}" for name in install(client, maintain_id=ids[MAINTAIN]))


def _pool(client: SyncPrefectClient, name: str) -> str:
    pool = POOLS[name]
    try:
        client.read_work_pool(name)  # one that is there is the user's: its limit may have been changed
    except ObjectNotFound:
        client.create_work_pool(
            WorkPoolCreate(
                name=name,
                type="process",
                description=pool.description,
                concurrency_limit=pool.at_once,
                base_job_template=_job_template(),
            )
        )
    return f"pool        {name}"


def _job_template() -> dict[str, Any]:
    """Prefect's own, with the command that starts a flow run: without one Prefect starts three processes in a row to
    fetch the flow's code, which is installed already."""
    template = ProcessWorker.get_default_base_job_template()
    template["variables"]["properties"]["command"]["default"] = COMMAND
    return template


def _deployment_names(file: Path) -> list[str]:
    from prefect.flows import load_flow_from_entrypoint  # noqa: PLC0415 - beside its only use

    content = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("deployments"), list):
        raise ConfigError.one("names no deployments", file=file, suggestion="see the project's own prefect.yaml")
    return [f"{load_flow_from_entrypoint(each['entrypoint']).name}/{each['name']}" for each in content["deployments"]]


def _deploy(file: Path) -> None:
    """By Prefect's own command, in this process: what it prints is shown only if it fails.

    The working folder stays: its configs are the form's choices."""
    output = io.StringIO()
    arguments = sys.argv
    sys.argv = ["prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            prefect_command()
    except SystemExit as ended:
        if ended.code not in (0, None):
            raise RunError(f"{file} could not be deployed:\n{output.getvalue()}") from ended
    finally:
        sys.argv = arguments
