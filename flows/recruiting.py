"""Clients on other machines, as Prefect's workers there run them: asked for when a load begins, sent home at its
end."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from uuid import UUID

import httpx
from prefect import get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectNotFound, PrefectException, PrefectHTTPStatusError
from prefect.states import Cancelling

from schemas.benchmark import Benchmark, ClientHosts
from schemas.errors import ConfigError, RunError
from tasks.load.elsewhere import ClientElsewhere, Meeting, address_towards
from tasks.load.stage import Gather

_LOOK_S = 1.0
_HOME_S = 20.0
"""How long their flow runs may take to end once they were sent home."""


def check_hosts(benchmark: Benchmark | None) -> None:
    """Raises ConfigError where a load asks for clients on other machines and nobody can launch them: before anything
    heavy is done."""
    if benchmark is None or benchmark.client_hosts is None:
        return
    with get_client(sync_client=True) as client:
        _deployment(client, benchmark.client_hosts)


def gathering(benchmark: Benchmark | None, *, run_id: str) -> Gather | None:
    """What has the clients come that a load asks for; None where it asks for none."""
    if benchmark is None or benchmark.client_hosts is None:
        return None
    return partial(_gathered, benchmark.client_hosts, benchmark.clients, run_id)


@contextmanager
def _gathered(
    hosts: ClientHosts, processes: int, run_id: str, say: Callable[[str], None]
) -> Iterator[Sequence[ClientElsewhere]]:
    """Raises ConfigError where there is no such deployment, RunError where one of its runs ended before it came, and
    EngineError where they did not come in time."""
    address = hosts.address or address_towards(os.environ["PREFECT_API_URL"])
    with get_client(sync_client=True) as client, Meeting(address=address, port=hosts.port) as meeting:
        deployment = _deployment(client, hosts)
        parameters = {
            "address": meeting.address,
            "ticket": meeting.ticket.text(),
            "processes": processes,
            "run": run_id,
        }
        try:
            flow_runs = [
                client.create_flow_run_from_deployment(deployment, parameters=parameters, tags=["assay-client"])
                for _ in range(hosts.workers)
            ]
        except PrefectHTTPStatusError as error:
            raise RunError(f"the Prefect server creates no run of {hosts.deployment}: {error}") from error
        looked_at = time.monotonic()

        def look() -> None:
            nonlocal looked_at
            if time.monotonic() - looked_at >= _LOOK_S:
                looked_at = time.monotonic()
                with _said("whether their flow runs still live is not known"):
                    _raise_for_one_that_ended(client, flow_runs)

        def count(came: int, of: int) -> None:
            say(f"{came} of {of} clients on other machines are here")

        try:
            yield meeting.gather(hosts.workers * processes, within_s=hosts.wait_s, say=count, look=look)
        finally:
            meeting.close()
            with _said("their flow runs could not be ended"):
                _end(client, flow_runs)


@contextmanager
def _said(what: str) -> Iterator[None]:
    """A Prefect server that is away for a moment costs no measured load: it is said in the flow run's log."""
    try:
        yield
    except (PrefectException, httpx.HTTPError, OSError) as error:
        get_run_logger().warning("clients on other machines: %s (%s: %s)", what, type(error).__name__, error)


def _deployment(client: SyncPrefectClient, hosts: ClientHosts) -> UUID:
    try:
        return client.read_deployment_by_name(hosts.deployment).id
    except ObjectNotFound as error:
        named = os.environ.get("ASSAY_PREFECT_API_URL")
        where = f"the Prefect server {named}" if named else "the temporary Prefect server of this run"
        raise ConfigError.one(
            f"there is no deployment {hosts.deployment} at {where}, so that no other machine can be asked",
            key="benchmark.client_hosts",
            suggestion="set ASSAY_PREFECT_API_URL to a server that the workers reach, and `assay deploy`",
        ) from error


def _raise_for_one_that_ended(client: SyncPrefectClient, flow_runs: Sequence[FlowRun]) -> None:
    for flow_run in flow_runs:
        state = client.read_flow_run(flow_run.id).state
        if state is not None and state.is_final():
            raise RunError(
                f"the flow run {flow_run.name}, which should bring clients, ended before they came: {_words(state)}"
            )


def _words(state: State) -> str:
    return f"{state.name}: {state.message}" if state.message else str(state.name)


def _end(client: SyncPrefectClient, flow_runs: Sequence[FlowRun]) -> None:
    """Waits for those that were sent home, and cancels those that never began, or do not end."""
    end = time.monotonic() + _HOME_S
    left = list(flow_runs)
    while left:
        states = {flow_run.id: client.read_flow_run(flow_run.id).state for flow_run in left}
        left = [each for each in left if (state := states[each.id]) is None or not state.is_final()]
        late = time.monotonic() > end
        for flow_run in left:
            state = states[flow_run.id]
            if late or state is None or state.is_scheduled():
                client.set_flow_run_state(flow_run.id, Cancelling(message="the load is over"))
        if late:
            return
        time.sleep(_LOOK_S)
