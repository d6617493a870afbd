"""What the machine's telemetry says of measured cells: energy, cost, what disturbed them.

All of it is made of rows of the warehouse, so that what rests on scores too, which come later, is made the same way.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.benchmark import Benchmark
from schemas.built import BuiltEngine
from schemas.metric import Aggregate, Score
from schemas.plan import DeviceFacts
from tasks.load.cost import cost_metrics
from tasks.load.disturbed import disturbed
from tasks.load.energy import cell_energy, energy_metrics, energy_shares
from tasks.load.readings import CPU, Readings
from tasks.load.repeats import over_repeats
from tasks.load.shares import Scores
from warehouse.parquet import read_rows

Row = Mapping[str, Any]
_OF_REQUESTS = [
    *("request_id", "cell_id", "phase", "status", "dataset", "sample_id", "arm", "prompt_tokens", "output_tokens"),
    *(
        "planned_at",
        "sent_at",
        "ttft_ms",
        "e2e_ms",
        "queued_ms",
        "prefill_ms",
        "decode_ms",
        "client_queue_ms",
        "revision",
    ),
]
_CORRECT = "_per_correct"


@dataclass(kw_only=True)
class Watched:
    """By cell: its metrics, and what disturbed it. energy_j: of each request, by request_id; empty without a source."""

    metrics: dict[str, list[Aggregate]] = field(default_factory=dict)
    disturbed: dict[str, list[str]] = field(default_factory=dict)
    energy_j: dict[str, float] = field(default_factory=dict)


def watched(
    home: Path,
    run_id: str,
    *,
    cells: Sequence[Row],
    benchmark: Benchmark,
    device: DeviceFacts,
    devices: int,
    served: bool = False,
    scores: Scores | None = None,
) -> Watched:
    """cells: rows of `cells`. devices: GPUs that the engine works on. served: whether a server answers, elsewhere.
    scores: for what a right answer costs."""
    readings = Readings(read_rows(home, "telemetry", run_id))
    # Of a server nothing is read here: this machine's energy is the client's.
    on = [] if served else [CPU] if device.kind == "cpu" else None
    processors = os.cpu_count() or len(device.cores)
    requests: dict[str, list[Row]] = {}
    for row in read_rows(home, "requests", run_id, columns=_OF_REQUESTS):
        requests.setdefault(row["cell_id"], []).append(row)
    found = Watched()
    for cell in cells:
        own = requests.get(cell["cell_id"], [])
        energy = cell_energy(cell, readings=readings, devices=on)
        made = energy_metrics(cell, readings=readings, requests=own, scores=scores, devices=on)
        made += cost_metrics(
            cell, prices=benchmark.prices, requests=own, device_count=devices, energy=energy, scores=scores
        )
        found.metrics[cell["cell_id"]] = [
            metric for metric in made if not (served and metric.name.startswith("perf.engine_"))
        ]
        found.disturbed[cell["cell_id"]] = disturbed(cell, readings=readings, cores=processors, devices=on)
        shares = energy_shares(cell, readings=readings, requests=own, devices=on)
        if shares is not None:
            found.energy_j |= shares.by_request
    return found


def correct_metrics(
    home: Path, run_id: str, *, benchmark: Benchmark, built: BuiltEngine, scores: Sequence[Score]
) -> list[Aggregate]:
    """What a right answer takes, in each cell and over the repeats of each point; nothing where no energy was measured
    and no price is set.

    scores: of the quality phase. A sample counts by its dataset's first metric, from 0 to 1."""
    cells = [row for row in read_rows(home, "cells", run_id) if row["point_id"] is not None]
    known = first_scores(scores)
    if not cells or not known:
        return []
    found = watched(
        home,
        run_id,
        cells=cells,
        benchmark=benchmark,
        device=built.device,
        devices=devices_of(built),
        served=is_served(built),
        scores=known,
    ).metrics
    right = {
        cell_id: [metric for metric in metrics if metric.name.endswith(_CORRECT)] for cell_id, metrics in found.items()
    }
    by_point: dict[str, list[Row]] = {}
    for cell in cells:
        by_point.setdefault(cell["point_id"], []).append(cell)
    pooled = [
        metric
        for point_id, own in by_point.items()
        for metric in over_repeats(
            [right[cell["cell_id"]] for cell in sorted(own, key=lambda row: int(row["repeat"]))], point_id=point_id
        )
    ]
    return [metric for metrics in right.values() for metric in metrics] + pooled


def devices_of(built: BuiltEngine) -> int:
    """Devices that the engine works on; 1 on a CPU."""
    if built.device.kind == "cpu":
        return 1
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    return math.prod(int(built.resolved.get(size) or 1) for size in sizes)


def is_served(built: BuiltEngine) -> bool:
    """Whether a server answers, and not an engine of assay's own."""
    return built.resolved.get("kind") == "endpoint"


def first_scores(scores: Sequence[Score]) -> dict[tuple[str, str, str], float]:
    """Each sample's score in an arm by its dataset's first metric, the mean of its repeats, where it lies from 0 to
    1."""
    first: dict[str, str] = {}
    values: dict[tuple[str, str, str], list[float]] = {}
    for score in scores:
        if score.metric != first.setdefault(score.dataset, score.metric) or score.value is None:
            continue
        if 0 <= score.value <= 1:
            values.setdefault((score.dataset, score.sample_id, score.arm), []).append(score.value)
    return {key: sum(each) / len(each) for key, each in values.items()}
