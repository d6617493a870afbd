"""What a vLLM server tells of its scheduler, read from its metrics: as steps, though it names none of them.

A reading gives the gauges of one moment, and counters whose growth since the last reading says how many steps there
were and what all of them did together. So one row stands for all steps between two readings, without their times; the
totals count every step."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tasks.engine.protocol import Steps, WireStep, WireTotals

_GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
_COUNTERS = (
    *("iteration_tokens_total_count", "prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total"),
    *("prompt_tokens_total", "prompt_tokens_cached_total", "generation_tokens_total"),
)
_STEPS = "iteration_tokens_total_count"
_LINE = re.compile(rf"^vllm:({'|'.join((*_GAUGES, *_COUNTERS))})(?:\{{[^\n]*\}})? (\S+)$", re.MULTILINE)
_ANY = re.compile(r"^(vllm:[a-z0-9_]+?)(?:\{[^\n]*\})? (\S+)$", re.MULTILINE)
_OF_HISTOGRAMS = ("_bucket", "_created", "_info")


def read_metrics(text: str) -> dict[str, float]:
    """The numbers that steps are made of, by vLLM's name without its prefix. Of several engines behind one server the
    sum; of the use of the cache the mean."""
    found: dict[str, float] = {}
    engines: dict[str, int] = {}
    for name, value in _LINE.findall(text):
        found[name] = found.get(name, 0.0) + float(value)
        engines[name] = engines.get(name, 0) + 1
    if "kv_cache_usage_perc" in found:
        found["kv_cache_usage_perc"] /= engines["kv_cache_usage_perc"]
    return found


def counters(text: str) -> dict[str, float]:
    """vLLM's own counters and gauges by name, summed over their labels, as the worker tells them."""
    found: dict[str, float] = {}
    for told, value in _ANY.findall(text):
        if not told.endswith(_OF_HISTOGRAMS):
            name = told.removesuffix("_total")
            found[name] = found.get(name, 0.0) + float(value)
    return found


@dataclass(frozen=True)
class _Grown:
    """What the counters grew by; None where one is not there."""

    now: Mapping[str, float]
    before: Mapping[str, float]

    def __call__(self, name: str) -> int | None:
        if name not in self.now:
            return None
        return max(0, round(self.now[name] - self.before.get(name, 0.0)))


class Readings:
    """Makes steps of one reading after the other. The first one only says where the counters stand."""

    def __init__(self) -> None:
        self._before: dict[str, float] | None = None
        self._step = 0

    def take(self, now: Mapping[str, float], *, at: float) -> Steps | None:
        """The steps since the last reading; None where there were none. at: the monotonic moment of this reading."""
        before, self._before = self._before, dict(now)
        if before is None or _STEPS not in now:
            return None
        if now[_STEPS] < before[_STEPS]:  # another server answers now, or the same one anew: it counts from 0
            before = {}
        grown = _Grown(now, before)
        steps = grown(_STEPS) or 0
        if not steps:
            # What else moved meanwhile is counted with the next step.
            self._before = dict(before) if before else self._before
            return None
        # What nobody uses at the moment of the reading is not what the steps before it used.
        usage = now.get("kv_cache_usage_perc") if now.get("num_requests_running") else None
        preempted = grown("num_preemptions_total")
        waiting = now.get("num_requests_waiting")
        queries, hits = grown("prefix_cache_queries_total") or 0, grown("prefix_cache_hits_total") or 0
        row = WireStep(
            ended_at=at,
            running=round(now.get("num_requests_running", 0.0)),
            step=self._step,
            stands_for=steps,
            waiting=None if waiting is None else round(waiting),
            kv_usage=usage,
            preempted=preempted,
            prefix_queries=queries,
            prefix_hits=hits,
        )
        self._step += steps
        totals = WireTotals(steps=steps, sent=1, preempted=preempted, prefix_queries=queries, prefix_hits=hits)
        prompt, cached, decode = (
            grown(name) for name in ("prompt_tokens_total", "prompt_tokens_cached_total", "generation_tokens_total")
        )
        if prompt is not None and cached is not None and decode is not None:
            totals.counted, totals.prompt_tokens, totals.decode_tokens = steps, max(0, prompt - cached), decode
        if usage is not None:
            totals.kv_read, totals.kv_usage_sum, totals.kv_usage_max = 1, usage, usage
        return Steps(source=os.getpid(), steps=[row], totals=totals)
