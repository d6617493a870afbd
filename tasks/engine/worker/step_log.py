"""The engine's own log: what each step of vLLM's scheduler computed, told by the scheduler itself.

In-process, the scheduler is an object within reach: the log wraps the one method that sees what a step was given
(`SchedulerOutput`), what came of it (`ModelRunnerOutput`) and what the scheduler says of itself (`SchedulerStats`).
With the core in a process of its own only the last of these arrives; it has the step's tokens where vLLM was asked for
`enable_logging_iteration_details`, and what a single request got is not known then.
"""

import os
import time
from typing import Any

from tasks.engine.protocol import Steps, WireGraphUse, WireStep, WireTotals
from tasks.engine.worker.graphs import chosen_graph, watch_choices
from tasks.engine.worker.memory import worker_of
from tasks.engine.worker.speculation import Speculation
from tasks.engine.worker.within import core_of

ALL_OF_THE_FIRST = 2_000
"""Steps that are all sent, of the quality phase and of each measured cell. After them it is 1 of 10, from ten times as
many on 1 of 100, and so forth: a million steps send some 7,000. The totals count every step."""


def stands_for(step: int) -> int:
    """For how many steps the one of this number (from 0 where its part began) is sent; 0 if it is not."""
    if step < ALL_OF_THE_FIRST:
        return 1
    every = 10
    while step >= ALL_OF_THE_FIRST * every:
        every *= 10
    return every if step % every == 0 else 0


class StepLog:
    """Watches one engine. Its own cost is a few microseconds a step, and a list scan over the batch."""

    def __init__(self) -> None:
        self._step = self._began = 0
        self._called_at = 0.0
        self._steps: list[WireStep] = []
        self._totals = WireTotals()
        self._graphs: dict[tuple[str, int | None], list[int]] = {}
        self._speculation = Speculation()
        self._prompt_steps: dict[str, int] = {}
        self._preempted: dict[str, int] | None = None
        """Of each request that runs, how often it was put back; None until the scheduler names them."""
        self._tells_requests = False
        self._carried = (0, 0)
        self._details_come = False
        """Whether vLLM tells of each step what it computed; one without was none."""

    def watch(self, engine: Any) -> None:
        """Logs every step of this engine from now on. engine: vLLM's LLMEngine."""
        self._speculation.expected = getattr(engine.vllm_config, "speculative_config", None) is not None
        core = core_of(engine)
        if core is None:
            observed = getattr(engine.vllm_config, "observability_config", None)
            self._details_come = bool(getattr(observed, "enable_logging_iteration_details", False))
            self._watch_outputs(engine.engine_core)
        else:
            self._tells_requests = True
            watch_choices(getattr(worker_of(engine), "model_runner", None))
            self._watch_scheduler(core.scheduler)

    def begin_anew(self) -> None:
        """What comes now is a part of its own: all of its first steps are sent."""
        self._began = self._step

    def step_called(self) -> None:
        """The engine is about to be asked for a step: its time begins."""
        self._called_at = time.monotonic()

    def finished(self, request_id: str) -> tuple[int | None, int | None, int | None]:
        """Steps of its prompt, draft tokens and accepted ones of a request that is over; None where it is not known.

        request_id: as vLLM's `add_request` gave it back."""
        if not self._tells_requests:
            return None, None, None
        steps = self._prompt_steps.pop(request_id, None)
        if steps is not None:
            self._totals.prompt_steps[steps] = self._totals.prompt_steps.get(steps, 0) + 1
        return steps, *self._speculation.finished(request_id)

    def preemptions(self, request_id: str) -> int | None:
        """How often a request that is over was put back; None where it is not known. vLLM before 0.30 does not say it
        with the answer."""
        return None if self._preempted is None else self._preempted.pop(request_id, 0)

    def forget(self, request_id: str) -> None:
        """Drops what was counted of a request that will have no answer."""
        self._prompt_steps.pop(request_id, None)
        self.preemptions(request_id)
        self._speculation.finished(request_id)

    def message(self) -> Steps | None:
        """What came since the last message; None if nothing did."""
        if not self._totals.steps and not self._totals.prompt_steps:
            return None
        totals = self._totals
        totals.sent = len(self._steps)
        totals.graphs = [
            WireGraphUse(mode=mode, size=size, steps=steps, tokens=tokens, padded_tokens=padded)
            for (mode, size), (steps, tokens, padded) in self._graphs.items()
        ]
        self._speculation.move_into(totals)
        message = Steps(source=os.getpid(), steps=self._steps, totals=totals)
        self._steps, self._totals, self._graphs = [], WireTotals(), {}
        return message

    def _watch_scheduler(self, scheduler: Any) -> None:
        take_outputs = scheduler.update_from_output
        cache = getattr(scheduler, "kv_cache_manager", None)

        def update_from_output(scheduled: Any, computed: Any) -> Any:
            # Read before the finished requests give their blocks back: this is what the step needed.
            usage = getattr(cache, "usage", None)
            # Read before vLLM cuts the tokens of a request that ends within them.
            n_drafts = self._speculation.step(scheduled, computed) if scheduled.scheduled_spec_decode_tokens else 0
            outputs = take_outputs(scheduled, computed)
            stats = next((each.scheduler_stats for each in outputs.values() if each.scheduler_stats is not None), None)
            self._took(scheduled, computed, stats, usage=usage, n_drafts=n_drafts)
            return outputs

        scheduler.update_from_output = update_from_output

    def _watch_outputs(self, core: Any) -> None:
        get_output = core.get_output

        def get_output_logged() -> Any:
            outputs = get_output()
            if outputs.scheduler_stats is not None:
                self._heard(outputs.scheduler_stats)
            return outputs

        core.get_output = get_output_logged

    def _took(self, scheduled: Any, computed: Any, stats: Any, *, usage: float | None, n_drafts: int) -> None:
        """A step of a scheduler in this process. scheduled: vLLM's SchedulerOutput; computed: its ModelRunnerOutput."""
        queries, hits = _prefix(stats)
        if not scheduled.total_num_scheduled_tokens:  # it only cleared up; what it looked up counts for the next one
            self._carried = (self._carried[0] + queries, self._carried[1] + hits)
            return
        queries, hits = queries + self._carried[0], hits + self._carried[1]
        self._carried = (0, 0)
        prompt_tokens, decode_tokens = self._tokens(scheduled, n_drafts)
        preempted = getattr(scheduled, "preempted_req_ids", None)
        if preempted is not None:
            self._preempted = {} if self._preempted is None else self._preempted
            for request_id in preempted:
                self._preempted[request_id] = self._preempted.get(request_id, 0) + 1
        now = time.monotonic()
        step = WireStep(
            ended_at=now,
            step_ms=(now - self._called_at) * 1000,
            running=len(scheduled.num_scheduled_tokens),
            prompt_tokens=prompt_tokens,
            decode_tokens=decode_tokens,
            preempted=None if preempted is None else len(preempted),
            prefix_queries=queries,
            prefix_hits=hits,
            kv_usage=usage,
        )
        self._add(step, stats, getattr(computed, "cudagraph_stats", None) or chosen_graph(scheduled))

    def _heard(self, stats: Any) -> None:
        """A step of a scheduler in another process. stats: vLLM's SchedulerStats."""
        details = getattr(stats, "iteration_details", None)
        if details is not None:
            stats.iteration_details = None  # with it vLLM would write a line for each step into its log
        queries, hits = _prefix(stats)
        if details.is_dummy if details is not None else self._details_come:  # nothing was computed
            self._carried = (self._carried[0] + queries, self._carried[1] + hits)
            return
        queries, hits = queries + self._carried[0], hits + self._carried[1]
        self._carried = (0, 0)
        step = WireStep(
            ended_at=time.monotonic(),
            running=stats.num_running_reqs,
            prefix_queries=queries,
            prefix_hits=hits,
            kv_usage=stats.kv_cache_usage,
        )
        if details is not None:
            step.step_ms = details.elapsed_ms
            step.running = details.num_ctx_requests + details.num_generation_requests
            step.prompt_tokens, step.decode_tokens = details.num_ctx_tokens, details.num_generation_tokens
        self._add(step, stats, getattr(stats, "cudagraph_stats", None))

    def _tokens(self, scheduled: Any, n_drafts: int) -> tuple[int, int]:
        """Tokens of prompts and others in one step; counts the steps of each prompt on the way."""
        tokens, cached = scheduled.num_scheduled_tokens, scheduled.scheduled_cached_reqs
        in_prompt = [new.req_id for new in scheduled.scheduled_new_reqs]
        if 0 in cached.num_output_tokens:
            pairs = zip(cached.req_ids, cached.num_output_tokens, strict=True)
            in_prompt += [request_id for request_id, n_out in pairs if n_out == 0]
        prompt_tokens = 0
        for request_id in in_prompt:
            prompt_tokens += tokens.get(request_id, 0)
            self._prompt_steps[request_id] = self._prompt_steps.get(request_id, 0) + 1
        # Who is past the prompt computes one token and its drafts; more is what a preemption threw away.
        most = len(tokens) - len(in_prompt) + n_drafts
        decode_tokens = min(scheduled.total_num_scheduled_tokens - prompt_tokens, most)
        return scheduled.total_num_scheduled_tokens - decode_tokens, decode_tokens

    def _add(self, step: WireStep, stats: Any, graph: Any) -> None:
        """Counts a step, and keeps it where it is one to be sent. graph: vLLM's CUDAGraphStat."""
        step.step = self._step
        step.stands_for = stands_for(self._step - self._began)
        step.waiting = _waiting(stats)
        step.graph_mode, step.graph_size, step.padded_tokens = self._graph(graph)
        spec = getattr(stats, "spec_decoding_stats", None)
        if spec is not None:
            self._speculation.add(spec)
        _count(self._totals, step)
        if step.stands_for:
            self._steps.append(step)
        self._step += 1

    def _graph(self, stat: Any) -> tuple[str | None, int | None, int | None]:
        """Mode, size and padding of a step. stat: vLLM's CUDAGraphStat; None where it keeps none."""
        if stat is None:
            return None, None, None
        mode = stat.runtime_mode.rpartition(".")[2].lower()
        size = None if mode == "none" else stat.num_padded_tokens
        used = self._graphs.setdefault((mode, size), [0, 0, 0])
        used[0] += 1
        used[1] += stat.num_unpadded_tokens
        used[2] += stat.num_paddings
        return mode, size, stat.num_paddings


def _count(totals: WireTotals, step: WireStep) -> None:
    totals.steps += 1
    if step.step_ms is not None:
        totals.timed += 1
        totals.timed_ms += step.step_ms
    if step.prompt_tokens is not None and step.decode_tokens is not None:
        totals.counted += 1
        totals.prompt_tokens += step.prompt_tokens
        totals.decode_tokens += step.decode_tokens
    if step.kv_usage is not None:
        totals.kv_read += 1
        totals.kv_usage_sum += step.kv_usage
        totals.kv_usage_max = max(totals.kv_usage_max, step.kv_usage)
    if step.preempted is not None:
        totals.preempted = (totals.preempted or 0) + step.preempted
    totals.prefix_queries += step.prefix_queries
    totals.prefix_hits += step.prefix_hits


def _prefix(stats: Any) -> tuple[int, int]:
    """Tokens looked up in the prefix cache, and tokens found there."""
    cache = getattr(stats, "prefix_cache_stats", None)
    return (0, 0) if cache is None else (cache.queries, cache.hits)


def _waiting(stats: Any) -> int | None:
    """Requests in the queue, those that wait for something else (a grammar, say) among them."""
    if stats is None:
        return None
    return int(stats.num_waiting_reqs) + int(getattr(stats, "num_skipped_waiting_reqs", 0))
