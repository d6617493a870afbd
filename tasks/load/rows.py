"""A cell as the warehouse has it: its requests, its own row, its metrics."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from schemas.benchmark import RampLoad, StagedLoad, TraceLoad
from schemas.cell_figures import Slo
from schemas.metric import Aggregate
from tasks.load.cell import CellRun, Taken
from tasks.load.measured import Measured
from tasks.load.metrics import steady_output_tokens_per_s
from tasks.load.metrics.e2e import e2e_ms
from tasks.load.metrics.tpot import tpot_ms
from tasks.load.metrics.ttft import ttft_ms
from tasks.load.metrics.ttft_text import ttft_text_ms
from tasks.load.perf import latencies, perf_metrics
from tasks.responses import RowContext, lost_row, output_tokens, response_row

Row = dict[str, Any]
BUCKETS = (0, 128, 512, 1024, 2048, 4096, 8192)
"""Where each bucket of prompt lengths begins, in tokens: those of the view `latency_by_bucket`."""
NO_ANSWER = "no answer came in time (benchmark.wait_s)"


def request_rows(run: CellRun, context: Mapping[str, RowContext], *, lost: str = NO_ANSWER) -> Iterator[Row]:
    """The rows of `requests`. context: by phase. lost: why those without an answer have none.

    Answers to the experiment's own prompts are validated as in the quality phase, which is why this waits until the
    load is over."""
    for taken in run.taken:
        yield _row(taken, context[taken.phase], repeat=run.repeat, lost=lost)


def _row(taken: Taken, context: RowContext, *, repeat: int, lost: str) -> Row:
    request, result, asked = taken.request, taken.result, taken.asked
    row = lost_row(request, context, why=lost) if result is None else response_row(request, result, context)
    row |= {
        "dataset": request.dataset or None,
        "sample_id": request.sample_id or None,
        "repeat": repeat,
        **({} if asked is None else _asked_times(taken, context)),
    }
    if result is not None:
        row["output_tokens"] = None if result.error is not None else output_tokens(result)
        row |= _latencies(taken.measured) | {"client": result.client, "clock_error_ms": result.clock_error_ms}
    if not request.dataset:
        row |= {"output": None, "output_token_ids": None}
    return row


def _asked_times(taken: Taken, context: RowContext) -> Row:
    asked = taken.asked
    if asked is None:
        return {}
    return {
        "planned_at": context.utc(asked.planned_at),
        "sent_at": context.utc(taken.sent_at),
        "client_queue_ms": asked.client_queue_ms,
    }


def _latencies(measured: Measured) -> Row:
    """By the metrics' own definitions: from when the request was due, where an open load had it due."""
    found = {"ttft_ms": ttft_ms, "ttft_text_ms": ttft_text_ms, "tpot_ms": tpot_ms, "e2e_ms": e2e_ms}
    return {name: next(iter(of(measured)), None) for name, of in found.items()}


def cell_row(run: CellRun, *, prompts: str, context: RowContext, abandoned: bool = False) -> Row:
    """The row of `cells`. prompts: what was asked. abandoned: the engine died on the way."""
    point = run.point
    return {
        "cell_id": run.cell_id,
        "point_id": None if abandoned else point.point_id,
        "engine_id": run.engine_id,
        "arm": point.arm,
        "kind": "abandoned" if abandoned else point.kind,
        "load": point.load.model_dump(mode="json"),
        "prompts": prompts,
        "concurrency": point.concurrency,
        "rate": point.rate,
        "burstiness": point.burstiness,
        "repeat": run.repeat,
        "order_index": run.order_index,
        "warmup_started_at": context.utc(run.warmup_began_at or None),
        "started_at": context.utc(run.began_at or None),
        "ended_at": context.utc(run.ended_at or None),
        "disturbed": run.disturbed,
    }


def cell_metrics(run: CellRun, *, slo: Slo) -> list[Aggregate]:
    """The metrics `perf.*` of the cell, and its latencies by dataset, adapter, length of the prompt and client, where
    there are several. A load that changes has no steady part."""
    arm, cell_id = run.point.arm, run.cell_id
    taken = run.measured
    found = perf_metrics([each.measured for each in taken], cell_id=cell_id, arm=arm, slo=slo)
    if isinstance(run.point.load, RampLoad | StagedLoad | TraceLoad):
        found = [metric for metric in found if metric.name != f"perf.{steady_output_tokens_per_s.METRIC.name}"]
    for what, parts in _parts(taken).items():
        if len(parts) > 1:
            for name, own in parts.items():
                found += latencies(own, cell_id=cell_id, arm=arm, of=f"perf.{what}.{name}")
    return found


def _parts(taken: Sequence[Taken]) -> dict[str, dict[str, list[Measured]]]:
    parts: dict[str, dict[str, list[Measured]]] = {
        "dataset": {},
        "adapter": {},
        "bucket": {},
        "client": {},
    }
    for each in sorted(taken, key=lambda one: len(one.request.prompt_token_ids)):
        request, measured = each.request, each.measured
        if request.dataset:
            parts["dataset"].setdefault(request.dataset, []).append(measured)
        parts["adapter"].setdefault(request.adapter or "none", []).append(measured)
        parts["bucket"].setdefault(bucket(len(request.prompt_token_ids)), []).append(measured)
        if each.result is not None and each.result.client is not None:
            parts["client"].setdefault(each.result.client, []).append(measured)
    return parts


def bucket(prompt_tokens: int) -> str:
    """`128-511`, `8192-`: the bucket of a prompt's length."""
    index = int(np.searchsorted(BUCKETS, prompt_tokens, side="right")) - 1
    return f"{BUCKETS[index]}-{BUCKETS[index + 1] - 1 if index + 1 < len(BUCKETS) else ''}"
