"""The engine process's loop: take commands, step the engine, send what finished."""

import os
import time
import traceback
from typing import Any

import zmq

from tasks.engine import protocol
from tasks.engine.worker import memory, requests, vllm_options
from tasks.engine.worker.advancing import advance_at_once
from tasks.engine.worker.checked import check_once
from tasks.engine.worker.compiled import ready_at_once
from tasks.engine.worker.deltas import Delta, make_deltas_small
from tasks.engine.worker.detokenizing import begin_at_whole_characters
from tasks.engine.worker.lora import load_adapters
from tasks.engine.worker.masks import Masks
from tasks.engine.worker.metrics import leave_out_gaps
from tasks.engine.worker.phases import PhaseClock
from tasks.engine.worker.step_log import StepLog
from tasks.engine.worker.stops import heed_all_stops
from tasks.engine.worker.trace import Trace
from tasks.engine.worker.warming import warm
from tasks.engine.worker.within import core_of
from tasks.engine.worker.yielding import Yielding

PROGRESS_EVERY_S = 0.4


class EngineLoop:
    """Owns vLLM's engine and the socket to the flow."""

    def __init__(self, socket: zmq.Socket[bytes], clock: PhaseClock) -> None:
        self._socket = socket
        self._clock = clock
        self._engine: Any = None
        self._log = StepLog()
        self._trace = Trace()
        self._yielding = Yielding()
        self._masks = Masks()
        self._adapters: dict[str, Any] = {}
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
                    aborted = self._in_flight.pop(request_id, None)
                    if aborted is not None:
                        self._log.forget(aborted.engine_id)
                self._send(protocol.Done(command="abort"))
            case protocol.ResetPrefixCache():
                self._forget_prefixes()
            case protocol.CellBegins():
                self._log.begin_anew()
            case protocol.Reschedule():
                self._reschedule(message)
            case protocol.Stats():
                self._send(protocol.StatsReply(counters=self._counters()))
            case protocol.Warm() | protocol.MakeMasks() | protocol.Sleep() | protocol.Wake():
                self._between_requests(message)
            case protocol.Close():
                self._trace.end(self._engine)
                return False
        return True

    def _between_requests(self, message: protocol.Warm | protocol.MakeMasks | protocol.Sleep | protocol.Wake) -> None:
        match message:
            case protocol.MakeMasks():
                taken = self._masks.switch(message.by)
                refused = protocol.Refused(command="make_masks", reason="it was not built for it")
                self._send(protocol.Done(command="make_masks") if taken else refused)
            case protocol.Warm():
                self._send(warm(self._engine, message.grammars, limit_s=message.limit_s, add=self._add))
                self._log.message()  # these steps are nobody's
            case protocol.Sleep():
                self._engine.sleep(level=message.level)
                self._send(protocol.Done(command="sleep"))
            case protocol.Wake():
                self._engine.wake_up()
                self._send(protocol.Done(command="wake"))

    def _build(self, message: protocol.Build) -> None:
        inprocess = message.options["core"] != "multiprocess"
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0" if inprocess else "1"

        from vllm.platforms import current_platform  # noqa: PLC0415
        from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

        device = "cpu" if current_platform.is_cpu() else "cuda"
        if inprocess:
            self._clock.watch_worker()
        started = time.monotonic()
        arguments = vllm_options.checked_arguments(
            message.model, message.options, device=device, trace_dir=message.trace_dir
        )
        self._engine = LLMEngine.from_engine_args(arguments)
        self._adapters = load_adapters(self._engine, message.options.get("adapters") or [])
        self._clock.add("build_s", time.monotonic() - started)
        yields = self._yielding.watch(self._engine, on=bool(message.options.get("prefill_yields")))
        begin_at_whole_characters(self._engine.get_tokenizer())
        check_once(message.options["grammar_backend"])
        masks = self._masks.watch(
            self._engine,
            on=message.options.get("grammar_masks") == "batched",
            backend=message.options["grammar_backend"],
            cores=len(os.sched_getaffinity(0)),
        )
        ready_at_once(self._engine, backend=message.options["grammar_backend"])
        advance_at_once(self._engine)
        make_deltas_small()
        stops = heed_all_stops(self._engine, inprocess=inprocess)
        self._first_token()
        leave_out_gaps(self._engine)
        self._log.watch(self._engine)
        config = self._engine.vllm_config
        resolved = vllm_options.resolved_settings(config, options=message.options, arguments=arguments)
        resolved["core"] = "inprocess" if inprocess else "multiprocess"
        resolved["prefill_yields"] = yields
        resolved["grammar_masks"] = masks
        resolved |= stops
        resolved["device"] = device
        resolved["cores"] = sorted(os.sched_getaffinity(0))
        compile_s = getattr(config.compilation_config, "compilation_time", None)
        if compile_s:
            self._clock.add("compile_s", compile_s)
        if inprocess:
            resolved["cold"] = memory.cold(compiles=bool(config.compilation_config.mode))
        sizes = {**memory.sizes(self._engine), **self._clock.graph_sizes}
        self._trace.start(self._engine, steps=message.options.get("trace_steps") or 0)
        self._send(protocol.Built(resolved=resolved, phases=self._clock.seconds, sizes=sizes))

    def _forget_prefixes(self) -> None:
        """And what was counted: whoever asks next begins anew."""
        command = "reset_prefix_cache"
        self._output_tokens = self._prompt_tokens = 0
        if self._engine.reset_prefix_cache() is False:
            self._send(protocol.Refused(command=command, reason="some of its blocks are still in use"))
        else:
            self._send(protocol.Done(command=command))

    def _reschedule(self, message: protocol.Reschedule) -> None:
        scheduler = getattr(core_of(self._engine), "scheduler", None)
        built = self._engine.vllm_config.scheduler_config.max_num_batched_tokens
        if scheduler is None:
            reason = "vLLM's scheduler is in another process"
        elif not 0 < message.max_num_batched_tokens <= built:
            reason = f"the engine was built for a budget of {built} tokens"
        else:
            scheduler.scheduler_config.long_prefill_token_threshold = message.long_prefill_token_threshold
            scheduler.max_num_scheduled_tokens = message.max_num_batched_tokens
            self._yielding.on = message.prefill_yields
            self._send(protocol.Done(command="reschedule"))
            return
        self._send(protocol.Refused(command="reschedule", reason=reason))

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

    def _submit(self, request: protocol.WireRequest) -> None:
        try:
            flight = requests.InFlight(request)
            flight.engine_id = self._add(request)
        except Exception as error:  # noqa: BLE001 - whatever vLLM refuses costs this request only, and says why
            self._finished.append(requests.not_taken(request, error))
            return
        self._in_flight[request.request_id] = flight
        self._prompt_tokens += len(request.prompt_token_ids)

    def _add(self, request: protocol.WireRequest, *, read_cache: bool = True) -> str:
        """Gives the name that vLLM has for the request among its steps."""
        structured = self._engine.vllm_config.structured_outputs_config
        parameters = requests.sampling_parameters(request, read_cache=read_cache, structured=structured)
        prompt = {"prompt_token_ids": request.prompt_token_ids}
        adapter = None if request.adapter is None else self._adapters[request.adapter]
        name = self._engine.add_request(request.request_id, prompt, parameters, lora_request=adapter)
        return name or request.request_id

    def _step(self) -> None:
        self._log.step_called()
        outputs = self._engine.step()
        now = time.monotonic()
        self._trace.step_done(self._engine)
        self._steps += 1
        for output in outputs:
            flight = self._in_flight.get(output.request_id)
            if flight is None:  # aborted while the step ran
                continue
            if not output.finished:  # nearly all of them: as little as possible for each
                brought = output if type(output) is Delta else output.outputs[0]
                self._output_tokens += flight.add(brought, now)
                continue
            if flight.needs_rerun(output):
                self._log.forget(flight.engine_id)
                flight.engine_id = self._add(flight.request, read_cache=False)
                continue
            self._output_tokens += flight.add(output.outputs[0], now)
            try:
                result = flight.result(output, now)
            except Exception as error:  # noqa: BLE001 - an answer that cannot be read costs its request, and says why
                result = requests.not_taken(flight.request, error)
                result.refused = False
            del self._in_flight[output.request_id]
            told = self._log.finished(flight.engine_id)
            result.prefill_steps, result.draft_tokens, result.accepted_tokens = told
            counted = self._log.preemptions(flight.engine_id)
            result.preemptions = counted if result.preemptions is None else result.preemptions
            self._finished.append(result)
        if self._in_flight and not self._engine.has_unfinished_requests():
            # vLLM knows none of them any more: they would wait for ever.
            lost = list(self._in_flight)
            for request_id in lost:
                error = RuntimeError("the engine lost this request")
                self._finished.append(requests.not_taken(self._in_flight.pop(request_id).request, error))

    def _flush(self) -> None:
        now = time.monotonic()
        due = now - self._progress_at >= PROGRESS_EVERY_S
        if due or not self._in_flight:
            # Before the last results, so that whoever has all of them has all of the steps.
            steps = self._log.message()
            if steps is not None:
                self._send(steps)
        if self._finished:
            self._send(protocol.Results(results=self._finished))
            self._finished = []
        if self._in_flight and due:
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
        """vLLM's own counters and gauges by name, summed over their labels; our steps; the most that torch held of
        the GPU since the counters were last asked for."""
        counters: dict[str, float] = {"assay:steps": float(self._steps)}
        peak = memory.peak_bytes_since()
        if peak is not None:
            counters["assay:peak_memory_bytes"] = float(peak)
        for metric in self._engine.get_metrics():
            value = getattr(metric, "value", None)
            if value is not None:
                counters[metric.name] = counters.get(metric.name, 0.0) + float(value)
        return counters

    def fail(self, where: str, error: BaseException) -> None:
        """Tells the flow that it is over."""
        text = "".join(traceback.format_exception(error))
        self._send(protocol.Failed(where=where, message=vllm_options.in_words(error), traceback=text))
