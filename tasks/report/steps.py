"""What the engine did, step by step: its own log over time, and what all of its steps add up to."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tasks.report.data import ReportData, Row
from tasks.report.numbers import is_number
from tasks.report.usage import since

_FACTS = (
    ("engine.steps", "Steps", "count"),
    ("engine.step_ms", "Time of a step, mean", "ms"),
    ("engine.tokens_per_step", "Tokens in a step, mean", "num"),
    ("engine.kv_usage.mean", "KV cache in use, mean", "share"),
    ("engine.kv_usage.max", "KV cache in use, most", "share"),
    ("engine.preemptions", "Preemptions", "count"),
    ("engine.prefix_hit_rate", "Prompt tokens found in the prefix cache", "share"),
    ("engine.graph_share.steps", "Steps from a CUDA graph", "share"),
    ("engine.graph_share.tokens", "Tokens from a CUDA graph", "share"),
    ("engine.padding_waste", "Padding, of all tokens computed", "share"),
    ("engine.prompts_split", "Prompts split over steps", "count"),
    ("engine.prefill_steps.max", "Most steps of one prompt", "count"),
    ("engine.spec.draft_tokens", "Tokens drafted", "count"),
    ("engine.spec.acceptance", "Drafted tokens accepted", "share"),
    ("engine.spec.mean_length", "Tokens of a draft's step, mean", "num"),
)


class Stretch(NamedTuple):
    """A stretch of the run's time, in seconds since it began. Counts are the highest of its steps, tokens their mean
    per step, preempted their sum; None where the engine does not tell it."""

    begin: float
    end: float
    running: int
    waiting: int | None
    kv_usage: float | None
    prompt_tokens: float | None
    decode_tokens: float | None
    preempted: int | None


def stretches(data: ReportData, *, most: int = 400) -> list[Stretch]:
    """The steps that were kept, over time; above `most`, as many equal stretches of time. An engine that stood idle
    between two steps has none there."""
    return data.once(("stretches", most), lambda: _stretches(data, most))


def _stretches(data: ReportData, most: int) -> list[Stretch]:
    start = data.run.get("started_at")
    if not isinstance(start, datetime):
        return []
    timed = [(since(start, row["ts"]), row) for row in data.steps if isinstance(row.get("ts"), datetime)]
    timed.sort(key=lambda pair: pair[0])
    if len(timed) <= most:
        return [_stretch(end - (row.get("step_ms") or 0.0) / 1000, end, [row]) for end, row in timed]
    first, last = timed[0][0], timed[-1][0]
    width = (last - first) / most
    places: dict[int, list[tuple[float, Row]]] = {}
    for end, row in timed:
        places.setdefault(min(most - 1, int((end - first) / width)), []).append((end, row))
    return [
        _stretch(
            min(pairs[0][0] - (pairs[0][1].get("step_ms") or 0.0) / 1000, first + place * width),
            max(pairs[-1][0], first + (place + 1) * width if place + 1 in places else pairs[-1][0]),
            [row for _, row in pairs],
        )
        for place, pairs in sorted(places.items())
    ]


def _stretch(begin: float, end: float, rows: Sequence[Row]) -> Stretch:
    def known(name: str) -> list[float]:
        return [row[name] for row in rows if is_number(row.get(name))]

    def mean(name: str) -> float | None:
        return sum(known(name)) / len(known(name)) if known(name) else None

    waiting, preempted = known("waiting"), known("preempted")
    return Stretch(
        begin=begin,
        end=end,
        running=int(max(known("running"), default=0)),
        waiting=int(max(waiting)) if waiting else None,
        kv_usage=max(known("kv_usage"), default=None),
        prompt_tokens=mean("prompt_tokens"),
        decode_tokens=mean("decode_tokens"),
        preempted=int(sum(preempted)) if preempted else None,
    )


def work(data: ReportData, engine: Row) -> dict[str, Any] | None:
    """What one engine's steps add up to: `facts` as (name, value, kind of number), `graphs`, `prompts` by the number of
    steps, `positions` of speculation, `kept` rows and the rule that they were `sampled` by. None where it told nothing.
    """
    metrics = {
        row["name"]: row
        for row in data.metrics
        if str(row["name"]).startswith("engine.") and _details(row).get("engine_id") == engine.get("engine_id")
    }
    if "engine.steps" not in metrics:
        return None
    totals = _details(metrics["engine.steps"])
    facts = [(label, metrics[name]["value"], kind) for name, label, kind in _FACTS if name in metrics]
    every = (*data.steps, *data.measured_steps)
    kept = sum(1 for row in every if row.get("engine_id") == engine.get("engine_id"))
    return {
        "facts": facts,
        "kept": kept,
        "steps": int(metrics["engine.steps"]["value"]),
        "sampled": totals.get("sampling"),
        "graphs": _graphs(totals.get("graphs") or []),
        "prompts": [(int(steps), count) for steps, count in (totals.get("prompt_steps") or {}).items()],
        "positions": _positions(totals),
    }


def _details(row: Row) -> Mapping[str, Any]:
    details = row.get("details")
    return details if isinstance(details, Mapping) else {}


def _graphs(uses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    steps = sum(use["steps"] for use in uses)
    return [
        {
            **use,
            "share": use["steps"] / steps if steps else None,
            "waste": use["padded_tokens"] / computed if (computed := use["tokens"] + use["padded_tokens"]) else None,
        }
        for use in uses
    ]


def _positions(totals: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """(position from 1, tokens drafted, tokens accepted) of speculation."""
    drafted, accepted = totals.get("drafted_by_position") or [], totals.get("accepted_by_position") or []
    return [(place, *pair) for place, pair in enumerate(zip(drafted, accepted, strict=False), start=1)]
