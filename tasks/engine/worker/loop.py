"""The engine process's loop: take commands, step the engine, send what finished."""

import os
import time
import traceback
from typing import Any

import zmq

from tasks.engine import protocol
from tasks.engine.worker import requests, vllm_options
from tasks.engine.worker.phases import PhaseClock

PROGRESS_EVERY_S = 0.4


class EngineLoop:
    """Owns vLLM's engine and the socket to the flow."""

    def __init__(self, socket: zmq.Socket[bytes], clock: PhaseClock) -> None:
        self._socket = socket
        self._clock = clock
        self._engine: Any = None
        self._in_flight: dict[str, requests.InFlight] = {}
        self._finished: list[protocol.WireResult] = []
        self._output_tokens = 0
        self._prompt_tokens = 0
        self._steps = 0
        self._progress_at = 0.0
        self._first_token_pending = True

    def run(self) -> None:
        """Until Close, or until the flow's end of the socket is gone (the supervisor sees to that)."""
        while True:
            busy = bool(self._in_flight)
            while self._socket.poll(0 if busy else 1000, zmq.POLLIN):
                if not self._handle(protocol.decode_to_engine(self._socket.recv())):
                    return
                busy = bool(self._in_flight)
            if self._in_flight:
                self._step()
            self._flush()

    def _send(self, message: protocol.FromEngine) -> None:
        self._socket.send(protocol.encode(message))

    def _handle(self, message: protocol.ToEngine) -> bool:
        match message:
            case protocol.Build():
                self._build(message)
            case protocol.Submit():
                for request in message.requests:
                    self._submit(request)
            case protocol.Abort():
                ids = message.request_ids or list(self._in_flight)
                self._engine.abort_request(ids)
                for request_id in ids:
                    self._in_flight.pop(request_id, None)
                self._send(protocol.Done(command="abort"))
            case protocol.ResetPrefixCache():
                self._engine.reset_prefix_cache()
                self._send(protocol.Done(command="reset_prefix_cache"))
            case protocol.Stats():
                self._send(protocol.StatsReply(counters=self._counters()))
            case protocol.Close():
                return False
        return True

    def _build(self, message: protocol.Build) -> None:
        inprocess = message.options["core"] != "multiprocess"
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0" if inprocess else "1"

        from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415
        from vllm.platforms import current_platform  # noqa: PLC0415
        from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

        device = "cpu" if current_platform.is_cpu() else "cuda"
        if inprocess:
            self._clock.watch_worker()
        if device == "cuda":
            self._clock.watch_capture()
        started = time.monotonic()
        arguments = EngineArgs(**vllm_options.engine_arguments(message.model, message.options, device=device))
        self._engine = LLMEngine.from_engine_args(arguments)
        self._clock.add("build_s", time.monotonic() - started)
        self._first_token()
        config = self._engine.vllm_config
        resolved = vllm_options.resolved_settings(config)
        resolved["core"] = "inprocess" if inprocess else "multiprocess"
        resolved["device"] = device
        resolved["cores"] = sorted(os.sched_getaffinity(0))
        compile_s = getattr(config.compilation_config, "compilation_time", None)
        if compile_s:
            self._clock.add("compile_s", compile_s)
        self._send(protocol.Built(resolved=resolved, phases=self._clock.seconds, sizes=self._sizes()))

    def _first_token(self) -> None:
        """One short request through the whole engine, so that `ready` means ready and the first sample pays nothing."""
        started = time.monotonic()
        request = protocol.WireRequest(
            request_id="first-token",
            prompt_token_ids=[1],
            sampling=protocol.WireSampling(temperature=0.0, max_tokens=1),
        )
        self._add(request)
        while self._engine.has_unfinished_requests():
            self._engine.step()
        self._engine.reset_prefix_cache()
        self._clock.add("first_token_s", time.monotonic() - started)

    def _sizes(self) -> dict[str, int]:
        """Bytes of the KV cache, where it is within reach."""
        executor = getattr(self._engine, "model_executor", None)
        worker = getattr(getattr(executor, "driver_worker", None), "worker", None)
        runner = getattr(worker, "model_runner", None)
        if runner is None:
            return {}
        caches = [cache for cache in runner.kv_caches if hasattr(cache, "element_size")]
        if not caches:
            return {}
        return {"kv_bytes": sum(cache.numel() * cache.element_size() for cache in caches)}

    def _submit(self, request: protocol.WireRequest) -> None:
        try:
            flight = requests.InFlight(request)
            self._add(request)
        except Exception as error:  # noqa: BLE001 - whatever vLLM refuses costs this request only, and says why
            self._finished.append(requests.not_taken(request, error))
            return
        self._in_flight[request.request_id] = flight
        self._prompt_tokens += len(request.prompt_token_ids)

    def _add(self, request: protocol.WireRequest, *, read_cache: bool = True) -> None:
        parameters = requests.sampling_parameters(request, read_cache=read_cache)
        self._engine.add_request(request.request_id, {"prompt_token_ids": request.prompt_token_ids}, parameters)

    def _step(self) -> None:
        outputs = self._engine.step()
        now = time.monotonic()
        self._steps += 1
        for output in outputs:
            flight = self._in_flight.get(output.request_id)
            if flight is None:  # aborted while the step ran
                continue
            if flight.needs_rerun(output):
                self._add(flight.request, read_cache=False)
                continue
            self._output_tokens += len(output.outputs[0].token_ids)
            result = flight.take(output, now)
            if result is not None:
                del self._in_flight[output.request_id]
                self._finished.append(result)
        if self._in_flight and not self._engine.has_unfinished_requests():
            # vLLM knows none of them any more: they would wait for ever.
            lost = list(self._in_flight)
            for request_id in lost:
                error = RuntimeError("the engine lost this request")
                self._finished.append(requests.not_taken(self._in_flight.pop(request_id).request, error))

    def _flush(self) -> None:
        if self._finished:
            self._send(protocol.Results(results=self._finished))
            self._finished = []
        now = time.monotonic()
        if self._in_flight and now - self._progress_at >= PROGRESS_EVERY_S:
            self._progress_at = now
            self._send(
                protocol.Progress(
                    output_tokens=self._output_tokens,
                    prompt_tokens=self._prompt_tokens,
                    unfinished=len(self._in_flight),
                    steps=self._steps,
                )
            )

    def _counters(self) -> dict[str, float]:
        """vLLM's own counters and gauges by name, summed over their labels."""
        counters: dict[str, float] = {"assay:steps": float(self._steps)}
        for metric in self._engine.get_metrics():
            value = getattr(metric, "value", None)
            if value is not None:
                counters[metric.name] = counters.get(metric.name, 0.0) + float(value)
        return counters

    def fail(self, where: str, error: BaseException) -> None:
        """Tells the flow that it is over."""
        text = "".join(traceback.format_exception(error))
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        self._send(protocol.Failed(where=where, message=line, traceback=text))
