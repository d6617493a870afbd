"""Every request that did not end well, with its reason, and texts that are cut to what a page can bear."""

import json
from collections import Counter
from typing import Any, NamedTuple

from tasks.report.data import ReportData, Row, arm_order, outcome
from tasks.report.text import shortened

MOST_FAILURES = 200
"""Rows of the table of failures; the browser of samples finds the others by their status."""


class Text(NamedTuple):
    """A text with the middle left out: head, characters missing, tail."""

    head: str
    left_out: int
    tail: str


def as_text(value: Any) -> str | None:
    """A text as it is, None as None, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def text_of(value: Any, *, limit: int) -> Text | None:
    """A value as a text of at most about `limit` characters; None stays None."""
    text = as_text(value)
    return None if text is None else Text(*shortened(text, limit=limit))


def reason_of(row: Row) -> str:
    """Why a request did not end well, in words."""
    if row.get("error"):
        return str(row["error"])
    violations = [f"{v.get('path') or '(whole answer)'}: {v.get('message')}" for v in row.get("violations") or []]
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        return violations[0] + more
    if row.get("finish_reason") == "length":
        return f"cut at max_tokens after {row.get('output_tokens') or 'an unknown number of'} tokens"
    if row.get("valid") is False:
        return "the answer is not of the form asked for"
    return "no reason was recorded"


def failures(data: ReportData) -> list[dict[str, Any]]:
    """Every request that did not end well (see `outcome`), the ones without an answer first, each with its reason."""
    order = ("error", "cancelled", "refused", "invalid", "truncated")
    rows = [(outcome(row), row) for row in data.requests]
    rows = [(status, row) for status, row in rows if status != "ok"]
    rows.sort(key=lambda pair: (order.index(pair[0]) if pair[0] in order else len(order), pair[1]["dataset"]))
    return [
        {
            **{name: row.get(name) for name in ("dataset", "sample_id", "arm", "request_id")},
            "status": status,
            "why": reason_of(row),
            "text": text_of(row.get("output"), limit=160),
        }
        for status, row in rows
    ]


def failure_counts(data: ReportData) -> list[dict[str, Any]]:
    """How many requests of each dataset and arm ended how."""
    totals = Counter((row["dataset"], row["arm"]) for row in data.requests)
    counts = Counter((row["dataset"], row["arm"], outcome(row)) for row in data.requests)
    place = {name: index for index, name in enumerate(data.dataset_names)}
    return [
        {
            "dataset": dataset,
            "arm": arm,
            "n": n,
            **{
                status: counts[dataset, arm, status]
                for status in ("ok", "invalid", "truncated", "refused", "error", "cancelled")
            },
        }
        for (dataset, arm), n in sorted(
            totals.items(), key=lambda item: (place.get(item[0][0], 99), arm_order(item[0][1]))
        )
    ]
