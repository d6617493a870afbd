"""How long each part of the engine's start took, told by vLLM's own calls and not by reading its log.

In-process, every step of the start is a method of one worker object: the clock wraps them once the worker is there.
With the core in a process of its own they run elsewhere; those phases are then missing.
"""

import time
from collections.abc import Callable
from typing import Any

_PHASE_OF_METHOD = {
    "init_device": "device_s",
    "load_model": "load_s",
    "determine_available_memory": "profile_s",
    "initialize_from_config": "kv_cache_s",
    "compile_or_warm_up_model": "warmup_s",
}


class PhaseClock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.graph_sizes: dict[str, int] = {}
        """graph_bytes: what recording the CUDA graphs took of the device; empty where none were recorded."""

    def add(self, phase: str, seconds: float) -> None:
        """Adds to a phase; one that is entered twice counts both times."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def watch_worker(self) -> None:
        """Times the steps of the next engine that is built in this process."""
        from vllm.v1.worker.worker_base import WorkerWrapperBase  # noqa: PLC0415 - costs seconds

        original = WorkerWrapperBase.init_worker

        def init_worker(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            result = self._timed("device_s", original)(wrapper, *args, **kwargs)
            for method, phase in _PHASE_OF_METHOD.items():
                setattr(wrapper.worker, method, self._timed(phase, getattr(wrapper.worker, method)))
            load_model = wrapper.worker.load_model

            def load_and_watch(*args: Any, **kwargs: Any) -> Any:
                loaded = load_model(*args, **kwargs)
                self._watch_capture(getattr(wrapper.worker, "model_runner", None))
                return loaded

            wrapper.worker.load_model = load_and_watch
            return result

        WorkerWrapperBase.init_worker = init_worker

    def _watch_capture(self, runner: Any) -> None:
        """Times the recording of CUDA graphs and keeps what it took; on a CPU there is none.

        The runner of this engine and not its class: vLLM has more than one."""
        capture = getattr(runner, "capture_model", None)
        if capture is None:
            return
        timed = self._timed("capture_s", capture)

        def capture_model(*args: Any, **kwargs: Any) -> Any:
            taken = timed(*args, **kwargs)
            if isinstance(taken, int):
                self.graph_sizes["graph_bytes"] = self.graph_sizes.get("graph_bytes", 0) + taken
            return taken

        runner.capture_model = capture_model

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                self.add(phase, time.monotonic() - started)

        return timed
