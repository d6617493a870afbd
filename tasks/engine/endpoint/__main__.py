"""The endpoint's process: `python -m tasks.engine.endpoint SOCKET SPAWNED_AT`, as the worker's.

It imports aiohttp, pydantic, msgspec, zmq and the standard library. Tokens are stamped when they arrive in it, so what
the network and this process add is in the times, as it is for any other client of the server.

SOCKET may be the address of a run on another machine, as in tcp://HOST:PORT; the ticket is then in the environment.
"""

import time

_BEGUN = time.monotonic()

import asyncio  # noqa: E402 - what comes before is timed
import gc  # noqa: E402
import os  # noqa: E402
import socket as sockets  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402

import zmq  # noqa: E402

from tasks.engine import protocol  # noqa: E402
from tasks.engine.endpoint import far  # noqa: E402
from tasks.engine.endpoint.loop import EndpointLoop, versions  # noqa: E402

_ENDED_WELL, _FAILED, _LEFT_ALONE = 0, 1, 3


def _say(line: str) -> None:
    """A line of the engine's log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _serve(socket: zmq.Socket[bytes], phases: dict[str, float], connection: far.Connection | None) -> int:
    loop = EndpointLoop(socket, phases=phases, say=_say)
    tasks: list[asyncio.Task[str | None]] = [asyncio.create_task(loop.run())]
    if connection is not None:
        tasks.append(asyncio.create_task(connection.until_lost()))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        lost = [said for task in done if (said := task.result()) is not None]
    except Exception as error:  # noqa: BLE001 - it is the flow that must hear of it, without the key
        loop.fail(error, details="".join(traceback.format_exception(error)))
        return _FAILED
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # each was asked for what it has to say
    for said in lost:
        _say(said)
    return _LEFT_ALONE if lost else _ENDED_WELL


def main(address: str, spawned_at: float) -> int:
    phases = {"process_start_s": _BEGUN - spawned_at, "import_s": time.monotonic() - _BEGUN}
    context = zmq.Context()
    elsewhere = far.is_far(address)
    socket = context.socket(zmq.DEALER if elsewhere else zmq.PAIR)
    socket.setsockopt(zmq.LINGER, 2000)
    socket.setsockopt(zmq.SNDHWM, 0)  # a flow that is slow to take results must not hold up the clock of the others
    connection = far.Connection(socket, address) if elsewhere else None
    socket.connect(address)
    hello = protocol.Hello(
        pid=os.getpid(), versions=versions(), phases=dict(phases), host=sockets.gethostname() if elsewhere else None
    )
    socket.send(protocol.encode(hello))
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # an event makes objects by the dozen, and hardly a cycle
    try:
        return asyncio.run(_serve(socket, phases, connection))
    finally:
        if connection is not None:
            connection.close()
        socket.close()
        context.term()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
