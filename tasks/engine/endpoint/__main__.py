"""The endpoint's process: `python -m tasks.engine.endpoint SOCKET SPAWNED_AT`, as the worker's.

It imports aiohttp, pydantic, msgspec, zmq and the standard library. Tokens are stamped when they arrive in it, so what
the network and this process add is in the times, as it is for any other client of the server.
"""

import time

_BEGUN = time.monotonic()

import asyncio  # noqa: E402 - what comes before is timed
import gc  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402

import zmq  # noqa: E402

from tasks.engine import protocol  # noqa: E402
from tasks.engine.endpoint.loop import EndpointLoop, versions  # noqa: E402


def _say(line: str) -> None:
    """A line of the engine's log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _serve(socket: zmq.Socket[bytes], phases: dict[str, float]) -> int:
    loop = EndpointLoop(socket, phases=phases, say=_say)
    try:
        await loop.run()
    except Exception as error:  # noqa: BLE001 - it is the flow that must hear of it, without the key
        loop.fail(error, details="".join(traceback.format_exception(error)))
        return 1
    return 0


def main(address: str, spawned_at: float) -> int:
    phases = {"process_start_s": _BEGUN - spawned_at, "import_s": time.monotonic() - _BEGUN}
    context = zmq.Context()
    socket = context.socket(zmq.PAIR)
    socket.setsockopt(zmq.LINGER, 2000)
    socket.setsockopt(zmq.SNDHWM, 0)  # a flow that is slow to take results must not hold up the clock of the others
    socket.connect(address)
    socket.send(protocol.encode(protocol.Hello(pid=os.getpid(), versions=versions(), phases=dict(phases))))
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # an event makes objects by the dozen, and hardly a cycle
    try:
        return asyncio.run(_serve(socket, phases))
    finally:
        socket.close()
        context.term()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
