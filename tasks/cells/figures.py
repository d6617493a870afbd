"""What one run came to: its times, rates, sizes, energy and quality, read from its tables.

By the definitions of docs/metrics.md, over all arms together; of measured loads each point's own, as
`load.free-closed-8.tpot_ms.p50`. What was not measured is not there, and never 0.

Times are those of the run's last session, and only where that session's engine was asked for every answer of the run:
the rest of an interrupted run is another load, and its times are no cell's. Sizes and quality do not mind.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.cell_figures import LOAD, Direction, Figure, Slo
from schemas.metric import NO_SCORES
from schemas.sample import ANSWERED
from tasks.compare.points import measured_points
from tasks.compare.read import PERF, read_recorded
from tasks.compare.speed import MAIN
from tasks.record.answers import last_attempts
from warehouse.parquet import read_rows

Row = Mapping[str, Any]

QUALITY = "quality."
PERCENTILES = (50, 99)
LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
PHASES = ("import_s", "load_s", "compile_s", "capture_s", "warmup_s")
"""Columns of `engines`: what a start is made of."""
_ENGINE: dict[str, Direction] = {
    "engine.preemptions": "lower",
    "engine.prefix_hit_rate": "higher",
    "engine.tokens_per_step": "none",
    "engine.kv_usage.max": "none",
    "engine.graph_share.steps": "none",
    "engine.padding_waste": "lower",
    "engine.spec.acceptance": "higher",
}
"""Of the metrics `engine.*` those that are taken over, and which is better where one is."""
_NO_QUALITY = (*NO_SCORES, ".timing.", ".perf.")
_EDGE_S = 1.0
"""Telemetry reads twice a second: further from the edge of a phase than this, a reading says nothing of it."""
_ANSWER = ["dataset", "arm", "kind", "phase", "status", "reused", "engine_id", "prompt_tokens", "output_tokens"]


def figures_of(home: Path, run_id: str, *, slo: Slo | None = None) -> dict[str, Figure]:
    """Every figure that the run has, by name. slo: what an answer must keep for `goodput.*`.

    Raises AssayError for tables that cannot be read; a run without rows has no figures."""
    requests = [
        row
        for row in last_attempts(home, run_id, columns=[*_ANSWER, "sent_at", *LATENCIES])
        if row["phase"] in (None, "quality")
    ]
    engine = _engine(read_rows(home, "engines", run_id, parse_json=True), requests)
    metrics = read_rows(home, "metrics", run_id)
    telemetry = _last_session(read_rows(home, "telemetry", run_id))
    found = [*_sizes(engine, metrics, telemetry), *_quality(metrics), *_loads(home, run_id, metrics)]
    if _whole(requests):
        found += [*_speed(requests, slo=slo), *_energy(requests, telemetry, engine)]
    return {figure.name: figure for figure in found}


def _last_session(rows: Sequence[Row]) -> list[Row]:
    last = max((row["revision"] for row in rows), default=None)
    return [row for row in rows if row["revision"] == last]


def _whole(requests: Sequence[Row]) -> bool:
    """Whether one session asked an engine for all of them."""
    return len({row["revision"] for row in requests}) == 1 and not any(row["reused"] for row in requests)


def _engine(engines: Sequence[Row], requests: Sequence[Row]) -> Row | None:
    """The engine that gave the last answer; that of the last session where nothing was answered."""
    sent = [row for row in requests if row["sent_at"] is not None and row["engine_id"] is not None]
    answering = max(sent, key=lambda row: row["sent_at"])["engine_id"] if sent else None
    own = [row for row in engines if row["engine_id"] == answering]
    return max(own or engines, key=lambda row: row["revision"], default=None)


def _span(requests: Sequence[Row]) -> tuple[float, float] | None:
    """From the first request sent to the last answer that came, as POSIX seconds."""
    answered = [row for row in requests if _answered(row) and row["sent_at"] is not None and row["e2e_ms"] is not None]
    if not answered:
        return None
    begin = min(row["sent_at"].timestamp() for row in answered)
    end = max(row["sent_at"].timestamp() + row["e2e_ms"] / 1000 for row in answered)
    return (begin, end) if end > begin else None


def _answered(row: Row) -> bool:
    return row["status"] in ANSWERED


def _total(rows: Sequence[Row], column: str) -> int | None:
    """None where one of them does not tell it."""
    values = [row[column] for row in rows]
    return None if None in values else sum(values)


def _speed(requests: Sequence[Row], *, slo: Slo | None) -> Iterator[Figure]:
    answered = [row for row in requests if _answered(row) and row["e2e_ms"] is not None]
    generated = [row for row in answered if row["kind"] == "generate"]
    for latency in LATENCIES:
        values = [row[latency] for row in generated if row[latency] is not None]
        for percentile in PERCENTILES if values else ():
            value = float(np.percentile(values, percentile))
            yield Figure(name=f"{latency}.p{percentile}", value=value, unit="ms", direction="lower")
    span = _span(requests)
    if span is None:
        return
    seconds = span[1] - span[0]
    yield Figure(name="generate_s", value=seconds, unit="s", direction="lower")
    counts = {
        "output_tokens": _total(generated, "output_tokens"),
        "prompt_tokens": _total(answered, "prompt_tokens"),
        "requests": len(answered),
    }
    for what, count in counts.items():
        if count:
            unit = f"{what.removeprefix('output_').removeprefix('prompt_')}/s"
            yield Figure(name=f"throughput.{what}_per_s", value=count / seconds, unit=unit, direction="higher")
    asked = [row for row in requests if row["kind"] == "generate"]
    if slo is not None and slo.asked and asked:
        good = sum(_kept(row, slo) for row in asked)
        yield Figure(name="goodput.requests_per_s", value=good / seconds, unit="requests/s", direction="higher")
        yield Figure(name="goodput.share", value=good / len(asked), unit="share", direction="higher")


def _kept(row: Row, slo: Slo) -> bool:
    """Whether an answer came and kept every limit. A time that was not measured keeps none, but for the time per token
    of a single token, which there is none of."""
    if not _answered(row):
        return False
    for name, limit in slo.asked.items():
        value = row[name]
        if value is None and name == "tpot_ms" and row["output_tokens"] == 1:
            continue
        if value is None or value > limit:
            return False
    return True


def _sizes(engine: Row | None, metrics: Sequence[Row], telemetry: Sequence[Row]) -> Iterator[Figure]:
    """The engine's start, its memory, and what its own log adds up to."""
    if engine is not None:
        yield from _start(engine)
        sizes = (engine["resolved"] or {}).get("sizes") or {}
        # The column of the weights falls back to the bytes of the files; this is what the engine holds of them.
        parts = {name: engine[f"{name}_bytes"] for name in ("kv", "graph", "activation")}
        for name, size in {"weights": sizes.get("weights_bytes"), **parts}.items():
            if size is not None:
                yield Figure(name=f"memory.{name}_bytes", value=size, unit="bytes", direction="none")
        if engine["kv_tokens"] is not None:
            yield Figure(name="memory.kv_tokens", value=engine["kv_tokens"], unit="tokens", direction="higher")
    peak = _peak(engine, telemetry)
    if peak is not None:
        yield Figure(name="memory.peak_bytes", value=peak, unit="bytes", direction="lower")
    for row in metrics:
        if row["scope"] == "engine" and row["name"] in _ENGINE and row["value"] is not None:
            yield Figure(name=row["name"], value=row["value"], unit=row["unit"] or "", direction=_ENGINE[row["name"]])


def _start(engine: Row) -> Iterator[Figure]:
    """Nothing where the run took over an engine that stood: it started none."""
    if engine["start_s"] is None:
        return
    yield Figure(name="start_s", value=engine["start_s"], unit="s", direction="lower")
    for phase in PHASES:
        if engine[phase] is not None:
            yield Figure(name=f"start.{phase}", value=engine[phase], unit="s", direction="lower")
    if engine["cold"] is not None:
        yield Figure(name="start.cold", value=float(engine["cold"]), unit="yes or no", direction="none")


def _on_cpu(engine: Row | None) -> bool:
    return engine is not None and (engine["resolved"] or {}).get("device") == "cpu"


def _peak(engine: Row | None, telemetry: Sequence[Row]) -> float | None:
    """The most memory that was read while the run answered: of all GPUs together, on a CPU of the engine's process."""
    used: dict[Any, float] = {}
    for row in telemetry:
        on_gpu = row["device"] != "cpu"
        size = row["memory_bytes"] if on_gpu else row["process_rss_bytes"]
        if size is not None and on_gpu is not _on_cpu(engine):
            used[row["ts"]] = used.get(row["ts"], 0.0) + size
    return max(used.values(), default=None)


def _energy(requests: Sequence[Row], telemetry: Sequence[Row], engine: Row | None) -> Iterator[Figure]:
    """What all GPUs drew from the first request to the last answer: by their counters, else by power over time.

    Not there on a CPU, and where the readings do not cover the phase."""
    span = _span(requests)
    gpus = sorted({row["device"] for row in telemetry} - {"cpu"})
    if span is None or not gpus or _on_cpu(engine):
        return
    drawn = [_drawn([row for row in telemetry if row["device"] == gpu], *span) for gpu in gpus]
    if any(joules is None for joules in drawn):
        return
    total = sum(joules for joules in drawn if joules is not None)
    yield Figure(name="energy.j", value=total, unit="J", direction="lower")
    tokens = [row["output_tokens"] for row in requests if _answered(row) and row["kind"] == "generate"]
    if None not in tokens and sum(tokens):
        yield Figure(name="energy.j_per_output_token", value=total / sum(tokens), unit="J/token", direction="lower")


def _drawn(rows: Sequence[Row], begin: float, end: float) -> float | None:
    for column in ("energy_j", "power_w"):
        points = sorted((row["ts"].timestamp(), row[column]) for row in rows if row[column] is not None)
        if len(points) < 2 or points[0][0] > begin + _EDGE_S or points[-1][0] < end - _EDGE_S:
            continue
        times, values = (np.asarray(column) for column in zip(*points, strict=True))
        if column == "energy_j":
            first, last = np.interp([begin, end], times, values)
            return float(last - first)
        inside = np.concatenate([[begin], times[(times > begin) & (times < end)], [end]])
        return float(np.trapezoid(np.interp(inside, times, values), inside))
    return None


def _loads(home: Path, run_id: str, metrics: Sequence[Row]) -> Iterator[Figure]:
    """The main numbers of each measured point, over its repeats."""
    if not any(row["name"].startswith(PERF) for row in metrics):
        return
    for point in measured_points(read_recorded(home, run_id)):
        for metric in MAIN:
            row = point.rows.get(f"{PERF}{metric}")
            if row is not None and row["value"] is not None:
                direction: Direction = "higher" if row["direction"] == "higher" else "lower"
                name = f"{LOAD}{point.point_id}.{metric}"
                yield Figure(name=name, value=row["value"], unit=row["unit"] or "", direction=direction)


def _quality(metrics: Sequence[Row]) -> Iterator[Figure]:
    """Every metric of a dataset, as `quality.<arm>.<dataset>.<metric>`."""
    for row in metrics:
        named = row["scope"] == "dataset" and not any(part in row["name"] for part in _NO_QUALITY)
        if named and row["value"] is not None and row["cell_id"] is None:
            direction: Direction = row["direction"] if row["direction"] in ("higher", "lower") else "none"
            name = f"{QUALITY}{row['arm'] or 'all'}.{row['name']}"
            yield Figure(name=name, value=row["value"], unit=row["unit"] or "", direction=direction)
