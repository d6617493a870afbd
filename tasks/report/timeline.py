"""The run over its time: its phases, and the requests in flight."""

from datetime import datetime

from tasks.report.data import ReportData, Row
from tasks.report.latency import timed
from tasks.report.numbers import is_number
from tasks.report.usage import since

REQUESTS = "requests"
"""The phase in which the samples were asked."""
Span = tuple[str, float, float]
"""What, and from when to when in seconds since the run began."""


def _requested(data: ReportData, rows: list[Row]) -> tuple[float, float] | None:
    start = data.run.get("started_at")
    if not isinstance(start, datetime):
        return None
    spans = [
        (since(start, row["sent_at"]), since(start, row["sent_at"]) + row["e2e_ms"] / 1000)
        for row in rows
        if isinstance(row.get("sent_at"), datetime) and is_number(row.get("e2e_ms")) and not row.get("reused")
    ]
    return (min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else None


def phases(data: ReportData) -> list[Span]:
    """The run's phases as its own moments tell them: before the first request, requests, the measured load where there
    is one, after the last answer."""
    start, end = data.run.get("started_at"), data.run.get("ended_at")
    asked, measured = _requested(data, data.requests), measured_span(data)
    active = [span for span in (asked, measured) if span is not None]
    if not isinstance(start, datetime) or not active:
        return []
    begun, ended = active[0][0], active[-1][1]
    found: list[Span] = [("data, plan and engine start", 0.0, begun)] if begun > 0 else []
    if asked is not None:
        found.append((REQUESTS, *asked))
    if measured is not None:
        found.append(("measured load", *measured))
    if isinstance(end, datetime) and since(start, end) > ended:
        found.append(("scores and records", ended, since(start, end)))
    return found


def measured_span(data: ReportData) -> tuple[float, float] | None:
    """From the first warm-up of a measured load to the end of the last; None where none was measured."""
    start = data.run.get("started_at")
    moments = [
        (since(start, row.get("warmup_started_at") or row["started_at"]), since(start, row["ended_at"]))
        for row in data.load_cells
        if isinstance(start, datetime) and row.get("started_at") and row.get("ended_at")
    ]
    return (min(begin for begin, _ in moments), max(end for _, end in moments)) if moments else None


def shading(data: ReportData) -> str:
    """What the shaded parts of a figure over the run's time are."""
    of = "requests were made" if measured_span(data) is None else "requests of the quality phase were made"
    return f"shaded: no {of}"


def in_flight(data: ReportData, *, arm: str | None = None, most: int = 600) -> list[tuple[float, int]]:
    """(seconds since the run began, requests sent and not yet answered), a step wherever it changes.

    Above `most` steps the highest count of each of `most` equal stretches is kept.
    """
    return data.once(("in flight", arm, most), lambda: _in_flight(data, arm, most))


def _in_flight(data: ReportData, arm: str | None, most: int) -> list[tuple[float, int]]:
    start = data.run.get("started_at")
    if not isinstance(start, datetime):
        return []
    changes: list[tuple[float, int]] = []
    for row in timed(data):
        sent = row.get("sent_at")
        if (arm is None or row["arm"] == arm) and isinstance(sent, datetime) and is_number(row.get("e2e_ms")):
            begun = since(start, sent)
            changes += [(begun, 1), (begun + row["e2e_ms"] / 1000, -1)]
    changes.sort()
    steps, count = [], 0
    for moment, change in changes:
        count += change
        if steps and steps[-1][0] == moment:
            steps[-1] = (moment, count)
        else:
            steps.append((moment, count))
    return steps if len(steps) <= most else _thinned(steps, most=most)


def _thinned(steps: list[tuple[float, int]], *, most: int) -> list[tuple[float, int]]:
    first, last = steps[0][0], steps[-1][0]
    width = (last - first) / most
    highest: dict[int, int] = {}
    for moment, count in steps:
        place = int((moment - first) / width)
        highest[place] = max(highest.get(place, 0), count)
    kept = [(first + place * width, count) for place, count in sorted(highest.items())]
    return [*kept[:-1], (last, steps[-1][1])]
