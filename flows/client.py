"""One machine's part of a load: clients of a server, for a run that measures it from another machine."""

import socket
from typing import Annotated

from prefect import flow, get_run_logger
from prefect.runtime import flow_run
from pydantic import BaseModel, Field

from flows import pages
from flows.context import this_flow_run
from flows.form import Shown
from flows.runtime import assay_home
from flows.signals import keep_sigterm
from tasks.load.lend import lent, wait_for_the_end

Address = Annotated[str, Shown(lambda: {"pattern": r"^tcp://.+:[0-9]+$", "examples": ["tcp://10.0.0.5:5710"]})]
Ticket = Annotated[str, Shown(lambda: {"pattern": "^[A-Za-z0-9_-]{86}$"})]
Processes = Annotated[int, Field(ge=1, le=256)]


class Lent(BaseModel):
    """What one machine gave to a run: so many clients, until the run sent them home."""

    host: str
    processes: int


def _flow_run_name() -> str:
    of = flow_run.parameters.get("run")
    return f"client of {of}" if of else "client"


@flow(name="client", flow_run_name=_flow_run_name, persist_result=False)
def client(address: Address = "", ticket: Ticket = "", processes: Processes = 1, run: str = "") -> Lent:
    """Send a part of the load of a run on another machine. A run with benchmark.client_hosts launches this by itself.

    Args:
        address: Where the run waits for its clients.
        ticket: What the run lets them in by; of no use once it is over.
        processes: How many clients this machine is.
        run: The run's id, for the name.

    Raises ConfigError for what is no address or ticket, and EngineError where a client ended before the run did.
    """
    keep_sigterm()
    log, host = get_run_logger(), socket.gethostname()
    logs = assay_home() / "clients" / str(this_flow_run().id)
    with (
        pages.refusal_explained(),
        lent(address=address, ticket=ticket, processes=processes, logs=logs) as started,
    ):
        log.info("%d of the run %s's clients are on %s; it waits at %s", processes, run, host, address)
        wait_for_the_end(started)
    log.info("the load is over: the run has sent them home")
    return Lent(host=host, processes=processes)
