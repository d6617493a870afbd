"""This machine's processes as clients of a run on another one."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from schemas.errors import ConfigError, EngineError
from tasks.engine.process import SupervisedProcess
from tasks.engine.settings import engine_environment, own_search_path
from tasks.engine.ticket import VARIABLE, BadTicket, Ticket

_LOOK_S = 0.2
_TAIL = 8


@contextmanager
def lent(*, address: str, ticket: str, processes: int, logs: Path) -> Iterator[list[SupervisedProcess]]:
    """So many processes that join the run at this address; they end with the run, or with this.

    logs: the folder of their logs. A key that the server wants is read from this machine's environment. Raises
    ConfigError for what is no address of a run, and no ticket."""
    if not address.startswith("tcp://"):
        raise ConfigError.one(
            f"{address!r} is no address of a run", key="address", suggestion="as in tcp://10.0.0.5:5710"
        )
    try:
        Ticket.read(ticket)
    except BadTicket as error:
        raise ConfigError.one(f"the ticket is none: {error}", key="ticket", suggestion="copy it whole") from error
    environment = engine_environment(cores=()) | {VARIABLE: ticket}
    environment |= {"PYTHONPATH": own_search_path(), "PYTHONSAFEPATH": "1"}
    with ExitStack() as stack:
        started = []
        for number in range(1, processes + 1):
            command = [sys.executable, "-m", "tasks.engine.endpoint", address, repr(time.monotonic())]
            process = SupervisedProcess(command, env=environment, log_path=logs / f"client-{number}.log")
            stack.callback(process.close)
            started.append(process)
        yield started


def wait_for_the_end(processes: list[SupervisedProcess]) -> None:
    """Waits until the run has sent all of them home. Raises EngineError, with its last lines, for one that ended
    otherwise."""
    waiting = list(enumerate(processes, 1))
    while waiting:
        for number, process in list(waiting):
            code = process.returncode
            if code is None:
                continue
            waiting.remove((number, process))
            if code != 0:
                raise EngineError(
                    f"client {number} of {len(processes)} ended with exit status {code}; its log, {process.log_path}, "
                    f"ends with:\n{process.log_tail(_TAIL)}"
                )
        time.sleep(_LOOK_S)
