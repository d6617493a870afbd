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
            return result

        WorkerWrapperBase.init_worker = init_worker

    def watch_capture(self) -> None:
        """Times the recording of CUDA graphs; on a CPU there is none."""
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415 - costs seconds

        GPUModelRunner.capture_model = self._timed("capture_s", GPUModelRunner.capture_model)

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                self.add(phase, time.monotonic() - started)

        return timed
