"""The tables of the section on measured load, as rows of what stands in their cells."""

from datetime import datetime
from typing import Any, NamedTuple

from tasks.compare.points import Measured
from tasks.compare.read import PERF
from tasks.load.verdict import ALIKE
from tasks.report.benchmark import (
    Figure,
    bucket_words,
    counts,
    disturbances,
    figure,
    figure_words,
    load_words,
    parts,
    points,
    requests_of,
)
from tasks.report.data import ReportData, Row, arm_order
from tasks.report.numbers import DASH, NBSP, fixed, is_number, number, share
from tasks.report.usage import since

TOO_WIDE = "too wide"
"""In place of an interval whose ends are so far apart that they say nothing: two repeats that differ."""
_WIDE = 100.0
_WIDE_CHANGE = 10.0
_STEADY = f"{PERF}steady_output_tokens_per_s"
LATENCIES = ("ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "tpot_ms.p99", "gap_ms.p99", "e2e_ms.p50", "e2e_ms.p99")
OF_PARTS = ("ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "tpot_ms.p99", "e2e_ms.p50", "e2e_ms.p99")
OF_CLIENTS = ("ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "e2e_ms.p50", "late_ms.p99", "clock_error_ms.p99")
"""Of clients one asks too whether one of them was late, or its clock not well known."""
_WAITED = "client_queue_ms.p99"
_ALWAYS = ("output_tokens_per_s", "requests_per_s")
_WHERE_THERE = (
    ("steady_output_tokens_per_s", "Output tokens/s, steady"),
    ("goodput_requests_per_s", "Goodput, requests/s"),
    ("goodput_share", "Within the SLO"),
    ("joules_per_output_token", "J/token"),
    ("power_w", "Power, W"),
    ("cost_per_million_output_tokens", "Cost/Mtok"),
    ("joules_per_correct", "J/correct answer"),
    ("cost_per_correct", "Cost/correct answer"),
    ("engine.prefix_hit_rate", "Prefix hits"),
    (_WAITED, "Waited at the client p99, ms"),
    ("late_ms.p99", "Client late p99, ms"),
)
_HEADS = {"output_tokens_per_s": "Output tokens/s", "requests_per_s": "Requests/s"}


class Cell(NamedTuple):
    """What stands in a table: the median, and in small print the interval over the repeats. None: not measured."""

    text: str
    span: str | None


def as_cell(read: Figure | None) -> Cell | None:
    """A number as the page shows it, a share in percent."""
    if read is None or not is_number(read.value):
        return None
    is_share = read.unit == "share"
    write = share if is_share else lambda each: number(float(each))
    text = write(read.value)
    if read.lo is None or read.hi is None:
        return Cell(text, None)
    lo, hi = read.lo, min(read.hi, 1.0) if is_share else read.hi
    if hi > _WIDE * max(lo, 0.0) and not is_share:
        return Cell(text, TOO_WIDE)
    ends = [write(lo), write(hi)]
    return Cell(text, None if set(ends) == {text} else DASH.join(ends))


def latency_rows(data: ReportData) -> list[dict[str, Any]]:
    """One row a point: its requests, and its latencies in ms."""
    return [
        _head(data, point) | {"cells": [as_cell(figure(point, name)) for name in LATENCIES]} for point in points(data)
    ]


def _head(data: ReportData, point: Measured) -> dict[str, Any]:
    counted = counts(data, point)
    return {
        "name": point.name,
        "load": load_words(point),
        "arm": point.arm,
        "repeats": len(point.cells),
        "disturbed": len(point.disturbed),
        "why": "; ".join(disturbances(point)),
        "measured": counted["answered"] + counted["failed"],
        "failed": counted["failed"],
    }


def _is_told(data: ReportData, name: str) -> bool:
    """A wait at the client is shown where there was one."""
    return name != _WAITED or any((read := figure(point, name)) is not None and read.value for point in points(data))


def throughput_heads(data: ReportData) -> list[tuple[str, str]]:
    """(metric, head) of the second table: what at least one point has."""
    found = [(name, _HEADS[name]) for name in _ALWAYS]
    for name, head in _WHERE_THERE:
        units = {read.unit for point in points(data) for read in [figure(point, name)] if read is not None}
        if units and _is_told(data, name):
            currency = f", {min(units).partition('/')[0]}" if name.startswith("cost_") else ""
            found.append((name, f"{head}{currency}"))
    return found


def throughput_rows(data: ReportData) -> list[dict[str, Any]]:
    """One row a point: what it got done, for what."""
    names = [name for name, _ in throughput_heads(data)]
    return [
        {"name": point.name, "load": load_words(point), "arm": point.arm}
        | {"cells": [(name, as_cell(figure(point, name))) for name in names]}
        for point in points(data)
    ]


def part_rows(data: ReportData) -> dict[str, list[dict[str, Any]]]:
    """By what the points are taken apart: one row a part, load and arm, with its latencies in ms."""
    return {
        what: [
            {
                "name": bucket_words(part.name) if what == "bucket" else part.name,
                "load": load_words(part.point),
                "arm": part.point.arm,
                "cells": [as_cell(part.figures.get(name)) for name in part_figures(what)],
            }
            for part in found
        ]
        for what, found in parts(data).items()
    }


def part_figures(what: str) -> tuple[str, ...]:
    """The columns of a table of parts, by the metrics' names without `perf.`."""
    return OF_CLIENTS if what == "client" else OF_PARTS


def cell_rows(data: ReportData) -> list[dict[str, Any]]:
    """Every measured cell in the order of execution, probes with them."""
    steady = {row["cell_id"]: row for row in data.metrics if row["name"] == _STEADY}
    hits = {row["cell_id"]: row for row in data.metrics if row["name"] == f"{PERF}engine.prefix_hit_rate"}
    words = {cell["cell_id"]: load_words(point) for point in points(data) for cell in point.cells}
    ordered = sorted(data.load_cells, key=lambda row: row["order_index"] or 0)
    return [
        {
            "order": None if cell["order_index"] is None else cell["order_index"] + 1,
            "load": words.get(cell["cell_id"], str(cell["point_id"]).removeprefix(f"{cell['arm']}-")),
            "arm": cell["arm"],
            "repeat": cell["repeat"],
            "seconds": _seconds(cell),
            "warmup": len(requests_of(data, cell["cell_id"], phase="warmup")),
            "measured": len(requests_of(data, cell["cell_id"])),
            "cooldown": len(requests_of(data, cell["cell_id"], phase="cooldown")),
            "steady": _steady_words(steady.get(cell["cell_id"])),
            "hits": None if cell["cell_id"] not in hits else hits[cell["cell_id"]]["value"],
            "disturbed": ", ".join(map(str, cell["disturbed"] or [])),
        }
        for cell in ordered
    ]


def _seconds(cell: Row) -> float | None:
    begin, end = cell.get("started_at"), cell.get("ended_at")
    return since(begin, end) if isinstance(begin, datetime) and isinstance(end, datetime) else None


def _steady_words(row: Row | None) -> str | None:
    """`1.2 to 9.8 s, 8 in flight`."""
    details = None if row is None else row.get("details")
    if not isinstance(details, dict) or not is_number(details.get("begin_s")) or not is_number(details.get("end_s")):
        return None
    flight = details.get("in_flight")
    within = f", {flight} in flight" if flight is not None else ""
    return f"{details['begin_s']:.1f} to {details['end_s']:.1f}{NBSP}s{within}"


def arm_rows(data: ReportData) -> list[dict[str, Any]]:
    """Two arms of this run under the same load, one row a load and number: the ratio of their medians, paired by
    repeat."""
    by_id = {point.point_id: point for point in points(data)}
    place = {point_id: index for index, point_id in enumerate(by_id)}
    found = [
        row
        for row in data.comparisons
        if row.get("cell_id") in by_id and row.get("baseline_run_id") in (None, data.run_id)
    ]
    found.sort(key=lambda row: (place[row["cell_id"]], arm_order(row["baseline_arm"])))
    return [
        {
            **row,
            "load": load_words(by_id[row["cell_id"]]),
            "figure": figure_words(str(row["metric"]).removeprefix(PERF)),
            "unit": str(by_id[row["cell_id"]].rows[row["metric"]].get("unit") or "")
            if row["metric"] in by_id[row["cell_id"]].rows
            else "",
            "change": _change(row.get("effect")),
            "span": _change_span(row.get("lo"), row.get("hi")),
        }
        for row in found
    ]


def arm_grid(data: ReportData) -> tuple[list[str], list[dict[str, Any]]]:
    """The same as a table: (the numbers compared, one row a load and pair of arms with a cell for each; None where it
    was not compared)."""
    rows = arm_rows(data)
    figures = list(dict.fromkeys(row["figure"] for row in rows))
    grid: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["cell_id"], row["candidate_arm"], row["baseline_arm"])
        line = grid.setdefault(
            key, {"load": row["load"], "arms": f"{key[1]} / {key[2]}", "cells": [None] * len(figures)}
        )
        line["cells"][figures.index(row["figure"])] = row
    return figures, list(grid.values())


def _change_span(lo: Any, hi: Any) -> str | None:
    if not is_number(lo) or not is_number(hi):
        return None
    return TOO_WIDE if hi > _WIDE_CHANGE else f"{fixed(100 * lo, 1, signed=True)} to {_change(hi)}"


def _change(effect: Any) -> str:
    return f"{fixed(100 * effect, 1, signed=True)}{NBSP}%" if is_number(effect) else DASH


SAME = f"a loss of {100 * ALIKE:g}{NBSP}% is ruled out"
"""What `same` means between two arms."""
