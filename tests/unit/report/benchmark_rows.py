"""The rows of a made-up benchmark, beside those of a made-up run: two arms under four closed loads, an open one and a
search for the knee, twice each. Its metrics are made of its requests by the same functions that make a real run's."""

import dataclasses
import itertools
import json
import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import report_rows
from report_rows import HOSTILE, RUN_ID, START

from schemas.cell_figures import Slo
from schemas.metric import Aggregate
from tasks.compare.read import RecordedRun
from tasks.compare.speed import compare_speed, speed_rows
from tasks.load.measured import Measured
from tasks.load.perf import latencies, perf_metrics
from tasks.load.repeats import over_repeats
from tasks.load.rows import bucket
from tasks.report.benchmark_time import shown_cell
from tasks.report.data import ReportData, from_tables

Row = dict[str, Any]
__all__ = ["BENCHMARK", "data_of", "tables"]

SLO = Slo(ttft_ms=400, tpot_ms=60)


def _fixed(tokens: int) -> Row:
    return {"kind": "fixed", "mean": float(tokens), "sd": None, "least": 1, "most": None}


BENCHMARK: Row = {
    "load": [
        {"kind": "closed", "concurrency": [1, 4, 16, 64], "requests": 40},
        {"kind": "open", "rate": [2.5], "requests": 40, "arrivals": "poisson", "burstiness": 1.0, "at_once": None},
        {"kind": "saturate", "share": 0.95},
    ],
    "prompts": {
        "kind": "mix",
        "parts": [
            {"share": share, "prompt_tokens": _fixed(prompt), "output_tokens": _fixed(24)}
            for share, prompt in ((0.75, 90), (0.25, 3000))
        ],
    },
    "answers": "own",
    "warmup": 3,
    "cooldown": 2,
    "repeats": 2,
    "slo": {"ttft_ms": 400.0, "tpot_ms": 60.0, "e2e_ms": None},
    "prices": {"currency": "EUR", "device_hour": 2.5, "kwh": None, "prompt_mtok": None, "output_mtok": None},
    "clients": 1,
    "wait_s": 600.0,
    "alone": False,
    "seed": 0,
}  # fmt: skip
_STALL_S = 1.5
"""When, in every closed cell, a step takes 800 ms to read a long prompt."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class _Maker:
    def __init__(self, *, hostile: bool) -> None:
        self.random = random.Random(5)
        self.hostile = hostile
        self.clock = 90.0
        self.cells: list[Row] = []
        self.requests: list[Row] = []
        self.steps: list[Row] = []
        self.metrics: list[Row] = []
        self.of_points: dict[str, list[list[Aggregate]]] = {}

    def cell(self, name: str, arm: str, repeat: int, *, kind: str, load: Row, flight: int, rate: float | None) -> None:
        """A cell of 40 requests, so many in flight."""
        point_id, warm = f"{arm}-{name}", self.clock
        cell_id = f"e1-{point_id}-r{repeat}"
        begin = warm + 0.5
        measured: list[Measured] = []
        free = [begin] * flight
        for index in range(45):
            phase = "warmup" if index < 3 else "measure" if index < 43 else "cooldown"
            place = min(range(flight), key=free.__getitem__)
            planned = None if rate is None else begin + index / rate
            sent = max(free[place], planned or 0.0) if phase != "warmup" else warm + 0.1 * index
            one = self._measured(
                sent, planned, arm=arm, flight=flight, begin=begin, failed=index == 20 and flight == 64
            )
            if phase != "warmup" and one.last_token_at is not None:
                free[place] = one.last_token_at
            if phase == "measure":
                measured.append(one)
            self.requests.append(
                self._row(f"{cell_id}-{index}", one, cell_id=cell_id, arm=arm, phase=phase, repeat=repeat)
            )
        end = max(one.last_token_at for one in measured if one.last_token_at is not None)
        disturbed = ["host_busy 2.1 of 4 cores"] if (name, arm, repeat) == ("closed-16", "guided", 1) else []
        disturbed += ["client_late 7.5 ms"] if name == "closed-64" else []
        self.cells.append(
            {
                "run_id": RUN_ID, "revision": 1, "cell_id": cell_id, "engine_id": "e1", "arm": arm, "kind": kind,
                "concurrency": flight if kind == "closed" else None, "rate": rate, "repeat": repeat,
                "burstiness": None if rate is None else 1.0, "order_index": len(self.cells),
                "started_at": at(begin), "ended_at": at(end), "disturbed": disturbed, "point_id": point_id,
                "load": json.dumps(load), "prompts": "mix",
                "warmup_started_at": at(warm),
            }
        )  # fmt: skip
        self._steps_of(cell_id, begin=begin, end=end, flight=flight)
        found = [*perf_metrics(measured, cell_id=cell_id, arm=arm, slo=SLO), *self._of_engine(cell_id, arm, flight)]
        for name_of, own in itertools.groupby(
            sorted(measured, key=lambda one: one.prompt_tokens), key=lambda one: bucket(one.prompt_tokens)
        ):
            found += latencies(list(own), cell_id=cell_id, arm=arm, of=f"perf.bucket.{name_of}")
        if kind != "probe":
            self.of_points.setdefault(point_id, []).append(found)
            if point_id == "free-open-2.5":
                for client, own in (("vm/1", measured[::2]), ("loadgen-1/1", measured[1::2])):
                    off_ms = None if client.startswith("vm") else 0.25
                    told = [dataclasses.replace(one, clock_error_ms=off_ms) for one in own]
                    found += latencies(told, cell_id=cell_id, arm=arm, of=f"perf.client.{client}")
            if self.hostile:
                found += latencies(measured, cell_id=cell_id, arm=arm, of=f"perf.adapter.{HOSTILE[1]}")
                found += latencies(measured, cell_id=cell_id, arm=arm, of=f"perf.dataset.{HOSTILE[0]}")
        self.metrics += map(_metric_row, found)
        self.clock = end + 0.2

    def _measured(
        self, sent: float, planned: float | None, *, arm: str, flight: int, begin: float, failed: bool
    ) -> Measured:
        prompt = 3000 if self.random.random() < 0.25 else 90
        if failed:
            return Measured(answered=False, sent_at=sent, planned_at=planned, prompt_tokens=prompt)
        first = sent + (30 + 0.08 * prompt + 4 * flight + self.random.expovariate(1 / (5 + flight))) / 1000
        step = 0.012 + 0.0004 * flight + (0.002 if arm == "guided" else 0.0)
        gaps, now = [], first
        for _ in range(23):
            gap = step * self.random.uniform(0.9, 1.15)
            if now <= begin + _STALL_S < now + gap:
                gap += 0.8
            gaps.append(gap * 1000)
            now += gap
        return Measured(
            answered=True, sent_at=sent, planned_at=planned, free_at=sent - 0.0075 if flight == 64 else sent - 0.0002,
            first_token_at=first, first_text_at=first, last_token_at=now, gaps_ms=gaps, gap_tokens=[1] * 23,
            prompt_tokens=prompt, output_tokens=24,
        )  # fmt: skip

    def _row(self, name: str, one: Measured, *, cell_id: str, arm: str, phase: str, repeat: int) -> Row:
        like = dict.fromkeys(report_rows.tables(sizes={"extract": 1})["requests"][0])
        asked = one.asked_at or 0.0
        first, last = one.first_token_at, one.last_token_at
        error = HOSTILE[2] if self.hostile else "the connection was closed"
        return like | {
            "run_id": RUN_ID, "revision": 1, "request_id": name, "attempt": 1, "cell_id": cell_id, "engine_id": "e1",
            "arm": arm, "kind": "generate", "repeat": repeat, "phase": phase, "reused": False,
            "status": "ok" if one.answered else "error", "error": None if one.answered else error,
            "prompt_tokens": one.prompt_tokens, "output_tokens": one.output_tokens,
            "planned_at": None if one.planned_at is None else at(one.planned_at), "sent_at": at(one.sent_at or 0.0),
            "ttft_ms": None if first is None else 1000 * (first - asked), "tpot_ms": None,
            "e2e_ms": None if last is None else 1000 * (last - asked), "queued_ms": 1.0, "gaps_ms": list(one.gaps_ms),
        }  # fmt: skip

    def _steps_of(self, cell_id: str, *, begin: float, end: float, flight: int) -> None:
        now = begin
        while now < end:
            long = now <= begin + _STALL_S < now + 0.03
            took = 0.8 if long else 0.03
            now += took
            self.steps.append(
                {
                    "run_id": RUN_ID, "revision": 1, "engine_id": "e1", "step": 1000 + len(self.steps), "stands_for": 1,
                    "cell_id": cell_id, "ts": at(now), "running": flight, "waiting": 5 if long else 0,
                    "prompt_tokens": 3000 if long else 90 if self.random.random() < 0.3 else 0, "decode_tokens": flight,
                    "kv_usage": 0.98 if long else 0.5, "preempted": 2 if long and flight == 64 else 0,
                    "prefix_queries": 90, "prefix_hits": 0, "step_ms": 1000 * took,
                }
            )  # fmt: skip

    def _of_engine(self, cell_id: str, arm: str, flight: int) -> list[Aggregate]:
        """What is made of telemetry and of the engine's own counts."""
        common: Row = {"scope": "run", "arm": arm, "n": 40, "n_failed": 0, "cell_id": cell_id, "direction": "lower"}
        return [
            Aggregate(name="perf.joules_per_output_token", value=30 / (flight + 4), unit="J/token", **common),
            Aggregate(name="perf.cost_per_million_output_tokens", value=50 / (flight + 2), unit="EUR/Mtok", **common),
            Aggregate(
                name="perf.engine.prefix_hit_rate", value=0.25 if flight == 4 else 0.0, unit="share",
                **common | {"scope": "engine"},
            ),
        ]  # fmt: skip


def _metric_row(metric: Aggregate) -> Row:
    names = (
        "scope",
        "name",
        "arm",
        "value",
        "unit",
        "direction",
        "n",
        "n_failed",
        "stderr",
        "lo",
        "hi",
        "method",
        "cell_id",
    )
    return {name: getattr(metric, name) for name in names} | {
        "run_id": RUN_ID, "revision": 1, "details": json.dumps(metric.details),
    }  # fmt: skip


def _knee(arm: str) -> Row:
    probes = [
        {"rate": 4.0, "met": 40, "asked": 40},
        {"rate": 8.0, "met": 30, "asked": 40},
        {"rate": 4.0, "met": 39, "asked": 40},
    ]
    details = {"share": 0.95, "decided": arm == "free", "above": 8.0, "probes": probes}
    made = Aggregate(
        scope="run", name="perf.knee_requests_per_s", arm=arm, value=4.0, unit="requests/s", direction="higher", n=3,
        n_failed=0, lo=4.0, hi=8.0, method="bisection", cell_id=f"{arm}-saturate", details=details,
    )  # fmt: skip
    return _metric_row(made)


def tables(*, hostile: bool = False, alone: bool = False) -> dict[str, list[Row]]:
    """Every table of a run that answered and scored, and measured then. alone: it measured only."""
    found = report_rows.tables(sizes={"extract": 12, "arithmetic": 12}, hostile=hostile)
    made = _Maker(hostile=hostile)
    loads = [(f"closed-{n}", "closed", {"kind": "closed", "concurrency": [n]}, n, None) for n in (1, 4, 16, 64)]
    loads += [
        (f"open-{rate:g}", "open", {"kind": "open", "rate": [rate], "arrivals": "poisson"}, 64, rate)
        for rate in (2.5, 10.0)
    ]
    loads += [("probe-4", "probe", {"kind": "open", "rate": [4.0], "arrivals": "poisson"}, 64, 4.0)]
    for repeat in (0, 1):
        for name, kind, load, flight, rate in loads if repeat == 0 else reversed(loads):
            for arm in ("free", "guided"):
                made.cell(name, arm, repeat, kind=kind, load=load, flight=flight, rate=rate)
    pooled = [metric for point_id, own in made.of_points.items() for metric in over_repeats(own, point_id=point_id)]
    metrics = [*made.metrics, *map(_metric_row, pooled), _knee("free"), _knee("guided")]
    config = {"model": {"name": "smollm2-135m-instruct"}, "benchmark": BENCHMARK | {"alone": alone}}
    found["runs"][0] |= {"config": json.dumps(config), "ended_at": at(made.clock + 1)}
    if alone:
        for table in ("requests", "scores", "comparisons", "samples", "steps", "datasets", "profiles"):
            found[table] = []
        found["metrics"] = []
    found["comparisons"] += _compared(metrics, made.cells)
    empty = dict.fromkeys(found["telemetry"][0])
    found["telemetry"] += [
        {**empty, "run_id": RUN_ID, "revision": 1, "ts": at(90 + 0.1 * index),
         "device": "GPU-1", "power_w": 300 + 80 * (index % 7) / 7}
        for index in range(int((made.clock - 90) * 10))
    ]  # fmt: skip
    found["cells"] = (found["cells"] if not alone else []) + made.cells
    found["requests"] += made.requests
    found["steps"] += made.steps
    found["metrics"] += metrics
    return found


def data_of(made: dict[str, list[Row]]) -> ReportData:
    """The report's data of these rows, with the gaps of the cell that is shown over time."""
    data = from_tables(tables=made, run_id=RUN_ID)
    shown = shown_cell(data)
    cell_id = None if shown is None else shown.cell["cell_id"]
    gaps = {
        row["request_id"]: row["gaps_ms"] for row in made["requests"] if row["cell_id"] == cell_id and row["gaps_ms"]
    }
    return replace(data, gaps=gaps)


def _compared(metrics: list[Row], cells: list[Row]) -> list[Row]:
    parsed = [row | {"details": json.loads(row["details"])} for row in metrics]
    run = {"run_id": RUN_ID, "config": {"benchmark": BENCHMARK}, "host": "bench-01"}
    own = RecordedRun(run=run, datasets={}, engines=[], metrics=parsed, cells=cells)
    results = compare_speed(candidate=own, baseline=own, arms=[("guided", "free")]).results
    more = {"run_id": RUN_ID, "revision": 1, "baseline_run_id": RUN_ID, "compared_at": START, "prompts_differ": None}
    more |= dict.fromkeys(("wins", "losses", "ties"))
    return [row | more for row in speed_rows(results)]
