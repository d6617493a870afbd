"""The engine process: `python -m tasks.engine.worker SOCKET SPAWNED_AT`.

SOCKET is the ipc address to connect to, SPAWNED_AT the flow's monotonic clock when it started this process. Everything
printed goes to the engine's log. Imports vLLM, msgspec, zmq and the standard library, nothing else of assay.
"""

import gc
import os
import sys
import time

import zmq

from tasks.engine import protocol
from tasks.engine.worker import vllm_options
from tasks.engine.worker.loop import EngineLoop
from tasks.engine.worker.phases import PhaseClock


def main(address: str, spawned_at: float) -> int:
    clock = PhaseClock()
    clock.add("process_start_s", time.monotonic() - spawned_at)
    context = zmq.Context()
    socket = context.socket(zmq.PAIR)
    socket.setsockopt(zmq.LINGER, 2000)
    socket.connect(address)
    loop = EngineLoop(socket, clock)
    try:
        started = time.monotonic()
        _import_vllm()
        clock.add("import_s", time.monotonic() - started)
        socket.send(
            protocol.encode(
                protocol.Hello(pid=os.getpid(), versions=vllm_options.versions(), phases=dict(clock.seconds))
            )
        )
        loop.run()
    except BaseException as error:
        loop.fail("engine", error)
        socket.close()
        context.term()
        raise
    socket.close()
    context.term()
    return 0


def _import_vllm() -> None:
    """The import, which is most of the engine's start, without what text does not need and without garbage collection
    over a heap that only grows: about a tenth less."""
    for name in ("scipy", "sklearn"):  # for sound, pictures and assisted decoding; vLLM and transformers do without
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    gc.disable()
    import vllm.engine.arg_utils  # noqa: PLC0415
    import vllm.v1.engine.llm_engine  # noqa: F401, PLC0415

    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # a step of 256 requests has thousands of new objects, and hardly a cycle
    gc.enable()


if __name__ == "__main__":
    code = main(sys.argv[1], float(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    # vLLM's own shutdown blocks for seconds; the supervisor sweeps up whatever it left.
    os._exit(code)
