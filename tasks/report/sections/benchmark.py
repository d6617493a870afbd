"""What was measured under load: latency, throughput, goodput, energy and cost by load and arm; the knee; the time of
one cell."""

from tasks.report.benchmark import PARTS, failures, knees, points, remarks
from tasks.report.benchmark_rows import (
    SAME,
    arm_grid,
    arm_rows,
    cell_rows,
    latency_rows,
    part_figures,
    part_rows,
    throughput_heads,
    throughput_rows,
)
from tasks.report.benchmark_settings import settings
from tasks.report.benchmark_time import answers_left_out, shown_cell, stalls, steps_kept
from tasks.report.data import ReportData
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where no load was measured."""
    if not data.load_cells and not data.measured:
        return None
    shown = shown_cell(data)
    return Section(
        anchor="load",
        title="Load",
        template="_benchmark.html.j2",
        count=len(points(data)),
        context={
            "remarks": remarks(data),
            "settings": settings(data),
            "latencies": latency_rows(data),
            "heads": throughput_heads(data),
            "throughputs": throughput_rows(data),
            "part_heads": PARTS,
            "part_columns": {what: [_head(name) for name in part_figures(what)] for what in PARTS},
            "parts": part_rows(data),
            "arms_compared": arm_rows(data),
            "arm_grid": arm_grid(data),
            "pairs": list(dict.fromkeys((row["candidate_arm"], row["baseline_arm"]) for row in arm_rows(data))),
            "same": SAME,
            "knees": knees(data),
            "cells": cell_rows(data),
            "failed": failures(data),
            "shown": None if shown is None else shown.words,
            "stalls": stalls(data),
            "left_out": 0 if shown is None else answers_left_out(data, shown),
            "steps_kept": 1 if shown is None else steps_kept(data, shown),
            "earlier": len({row["run_id"] for row in data.earlier_points}),
        },
    )


def _head(name: str) -> str:
    """`ttft p50` of `ttft_ms.p50`."""
    return name.replace("_ms.", " ").replace("_", " ")
