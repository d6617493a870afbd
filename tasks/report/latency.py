"""How fast the answers came, by the names and definitions of the run's own timings; successes only."""

from collections.abc import Iterable
from typing import Any

from schemas.sample import ANSWERED
from tasks.report.data import ReportData, Row, arm_order
from tasks.report.numbers import is_number, percentile

TIMES = (
    ("ttft_ms", "ttft", "request sent to first token"),
    ("tpot_ms", "tpot", "time per output token after the first"),
    ("e2e_ms", "e2e", "request sent to last token"),
    ("queued_ms", "queued", "waiting inside the engine"),
    ("prefill_ms", "prefill", "scheduled to first token"),
    ("decode_ms", "decode", "first token to last"),
)
DRAWN = ("ttft_ms", "tpot_ms", "e2e_ms")
BUCKETS = ((0, 128), (128, 512), (512, 2048), (2048, None))
"""Prompt lengths in tokens: from the first number up to, but without, the second."""


def timed(data: ReportData) -> list[Row]:
    """The quality phase's finished generating requests that were really made in this run."""
    return data.once(
        "timed", lambda: [row for row in data.generated if row.get("status") in ANSWERED and not row.get("reused")]
    )


def values(rows: Iterable[Row], column: str) -> list[float]:
    """A column's numbers; rows without one are left out, never counted as 0."""
    return [row[column] for row in rows if is_number(row.get(column))]


def _summary(rows: list[Row], column: str) -> dict[str, Any]:
    found = sorted(values(rows, column))
    return {"n": len(found), **{f"p{q}": percentile(found, q) for q in (50, 90, 95, 99)}}


def by_arm(data: ReportData) -> list[dict[str, Any]]:
    """n and p50 to p99 in ms of each time, one row a time and arm."""
    return data.once("latency by arm", lambda: _by_arm(data))


def _by_arm(data: ReportData) -> list[dict[str, Any]]:
    rows = timed(data)
    arms = sorted({row["arm"] for row in rows}, key=arm_order)
    table = []
    for column, name, meaning in TIMES:
        for arm in arms:
            summary = _summary([row for row in rows if row["arm"] == arm], column)
            if summary["n"]:
                table.append({"name": name, "meaning": meaning, "arm": arm, **summary})
    return table


def bucket_name(low: int, high: int | None) -> str:
    """`128 to 511`, `2,048 and more`."""
    if high is None:
        return f"{low:,} and more"
    return f"under {high:,}" if low == 0 else f"{low:,} to {high - 1:,}"


def by_bucket(data: ReportData) -> list[dict[str, Any]]:
    """ttft and tpot in ms by prompt length and arm: what long prompts cost, and whether short ones wait for them."""
    table = []
    rows = [row for row in timed(data) if is_number(row.get("prompt_tokens"))]
    for low, high in BUCKETS:
        inside = [row for row in rows if row["prompt_tokens"] >= low and (high is None or row["prompt_tokens"] < high)]
        for arm in sorted({row["arm"] for row in inside}, key=arm_order):
            of_arm = [row for row in inside if row["arm"] == arm]
            table.append(
                {
                    "bucket": bucket_name(low, high),
                    "arm": arm,
                    "n": len(of_arm),
                    "ttft": _summary(of_arm, "ttft_ms"),
                    "tpot": _summary(of_arm, "tpot_ms"),
                    "e2e": _summary(of_arm, "e2e_ms"),
                }
            )
    return table


def slowest(data: ReportData, *, count: int = 12) -> list[Row]:
    """The finished requests with the longest e2e."""
    return sorted((row for row in timed(data) if is_number(row.get("e2e_ms"))), key=lambda row: -row["e2e_ms"])[:count]
