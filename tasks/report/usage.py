"""What the run took of the machine: throughput, processor, memory, power, over time."""

from datetime import datetime
from typing import Any

from tasks.report.data import ReportData, Row, arm_order
from tasks.report.latency import timed, values
from tasks.report.numbers import is_number

Series = tuple[str, str, list[tuple[float, float]]]
"""What it is, its unit, and (seconds since the run began, value)."""

_COLUMNS = (
    ("power_w", "power", "W", 1.0),
    ("utilization", "utilization", "%", 100.0),
    ("memory_bytes", "memory in use", "GiB", 2.0**-30),
    ("temperature_c", "temperature", "°C", 1.0),
    ("sm_clock_mhz", "SM clock", "MHz", 1.0),
    ("process_cpu", "engine's processor use", "cores", 1.0),
    ("process_rss_bytes", "engine's memory", "GiB", 2.0**-30),
)


def since(start: datetime, moment: datetime) -> float:
    """Seconds from one moment to another, even if only one of them knows its zone (both are UTC)."""
    if start.tzinfo is None and moment.tzinfo is not None:
        moment = moment.replace(tzinfo=None)
    elif start.tzinfo is not None and moment.tzinfo is None:
        start = start.replace(tzinfo=None)
    return (moment - start).total_seconds()


def _device_name(device: str) -> str:
    return "machine" if device == "cpu" else f"GPU {device}"


def throughput(data: ReportData, *, windows: int = 120) -> list[tuple[float, float]]:
    """Output tokens per second over time, each answer's tokens spread evenly from its first token to its last."""
    return data.once(("throughput", windows), lambda: _throughput(data, windows))


def _throughput(data: ReportData, windows: int) -> list[tuple[float, float]]:
    start = data.run.get("started_at")
    spans = []
    for row in timed(data):
        sent, tokens = row.get("sent_at"), row.get("output_tokens")
        ttft, e2e = row.get("ttft_ms"), row.get("e2e_ms")
        if not (isinstance(start, datetime) and isinstance(sent, datetime)):
            continue
        if is_number(ttft) and is_number(e2e) and is_number(tokens):
            begun = since(start, sent)
            spans.append((begun + ttft / 1000, max(begun + e2e / 1000, begun + ttft / 1000 + 1e-3), tokens))
    if not spans:
        return []
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    step = max((last - first) / windows, 0.25)
    counts = [0.0] * (int((last - first) / step) + 1)
    for begin, end, tokens in spans:
        for index in range(int((begin - first) / step), min(int((end - first) / step), len(counts) - 1) + 1):
            low = max(begin, first + index * step)
            high = min(end, first + (index + 1) * step)
            counts[index] += tokens * max(high - low, 0) / (end - begin)
    return [(first + (index + 0.5) * step, count / step) for index, count in enumerate(counts)]


def series(data: ReportData, *, most: int = 1200) -> list[Series]:
    """The readings of the telemetry over time, of many the extremes; a column without a single value is not there."""
    found: list[Series] = []
    start = data.run.get("started_at")
    devices = list(dict.fromkeys(row["device"] for row in data.telemetry))
    for column, name, unit, factor in _COLUMNS:
        for device in devices:
            points = [
                (since(start, row["ts"]), row[column] * factor)
                for row in data.telemetry
                if row["device"] == device and is_number(row.get(column)) and isinstance(start, datetime)
            ]
            if points:
                of_engine = column.startswith("process")
                own = name if of_engine else f"{_device_name(device)}: {name}"
                found.append((own, unit, _thinned(points, most=most)))
    return found


def _thinned(points: list[tuple[float, float]], *, most: int) -> list[tuple[float, float]]:
    """Above `most` readings, the lowest and the highest of each of half as many equal stretches of them."""
    if len(points) <= most:
        return points
    width = -(-2 * len(points) // most)
    kept: list[tuple[float, float]] = []
    for begin in range(0, len(points), width):
        own = points[begin : begin + width]
        kept += sorted({min(own, key=lambda point: point[1]), max(own, key=lambda point: point[1])})
    return kept


def _span(data: ReportData, rows: list[Row]) -> float | None:
    ends: list[tuple[datetime, float]] = [
        (row["sent_at"], row["e2e_ms"])
        for row in rows
        if isinstance(row.get("sent_at"), datetime) and is_number(row.get("e2e_ms"))
    ]
    if not ends:
        return None
    first = min(sent for sent, _ in ends)
    return max(since(first, sent) + length / 1000 for sent, length in ends)


def totals(data: ReportData) -> list[dict[str, Any]]:
    """Requests, tokens and tokens per second of the whole quality phase, all arms together and each apart.

    An arm's own rate is not given: both arms share the engine at the same time.
    """
    rows = timed(data)
    table = []
    arms: list[str | None] = [None, *sorted({row["arm"] for row in rows}, key=arm_order)]
    for arm in arms:
        own = [row for row in rows if arm is None or row["arm"] == arm]
        if not own:
            continue
        span = _span(data, own) if arm is None or len(arms) == 2 else None
        output = sum(values(own, "output_tokens"))
        table.append(
            {
                "arm": arm,
                "requests": len(own),
                "prompt_tokens": sum(values(own, "prompt_tokens")),
                "cached_tokens": sum(values(own, "cached_tokens")) if values(own, "cached_tokens") else None,
                "output_tokens": output,
                "span_s": span,
                "rate": output / span if span else None,
            }
        )
    return table


def peaks(data: ReportData) -> list[tuple[str, float | None, str, str]]:
    """(what, value, kind of number, why it is missing) of the telemetry's extremes and sums."""

    gpus = [row for row in data.telemetry if row["device"] != "cpu"]
    machine = [row for row in data.telemetry if row["device"] == "cpu"]

    def highest(column: str, rows: list[Row]) -> float | None:
        return max(values(rows, column), default=None)

    energy = []
    for device in {row["device"] for row in gpus or machine}:  # a GPU's energy and its host's are two things
        read = values((row for row in data.telemetry if row["device"] == device), "energy_j")
        if len(read) > 1:
            energy.append(max(read) - min(read))
    no_gpu = "no GPU was read in this run"
    return [
        ("Engine's memory, peak", highest("process_rss_bytes", data.telemetry), "bytes", "no telemetry was recorded"),
        ("Engine's processor use, peak", highest("process_cpu", data.telemetry), "cores", "no telemetry was recorded"),
        (
            "Time throttled by a CPU quota",
            highest("cpu_throttled_s", data.telemetry),
            "seconds",
            "no quota, or not readable here",
        ),
        ("Machine memory in use, peak", highest("memory_bytes", machine), "bytes", "no telemetry was recorded"),
        ("GPU memory, peak", highest("memory_bytes", gpus), "bytes", no_gpu),
        ("Power of one GPU, peak", highest("power_w", gpus), "watts", no_gpu),
        ("Energy", sum(energy) if energy else None, "joules", no_gpu),
    ]


def readings(data: ReportData) -> list[dict[str, Any]]:
    """n, lowest, mean and highest of each reading, one row a device and measure that was read at least once."""
    table = []
    for device in dict.fromkeys(row["device"] for row in data.telemetry):
        own = [row for row in data.telemetry if row["device"] == device]
        for column, name, unit, factor in _COLUMNS:
            found = [value * factor for value in values(own, column)]
            if found:
                table.append(
                    {
                        "device": "engine" if column.startswith("process") else _device_name(device),
                        "name": name.removeprefix("engine's "),
                        "unit": unit,
                        "n": len(found),
                        "lowest": min(found),
                        "mean": sum(found) / len(found),
                        "highest": max(found),
                    }
                )
    return table


def unread(data: ReportData) -> list[str]:
    """In words, what was not read and therefore is missing (never 0)."""
    if not data.telemetry:
        return ["Nothing was read while this run went on: memory, processor use, power and clocks are missing, not 0."]
    said = []
    gpus = [row for row in data.telemetry if row["device"] != "cpu"]
    if not gpus:
        said.append(
            "No GPU was read: GPU memory, power, energy, utilization, clocks and temperature are missing, not 0."
        )
    for column, name, *_ in _COLUMNS:
        rows = data.telemetry if column.startswith("process") else gpus
        if rows and not values(rows, column):
            said.append(f"No reading of {name} came: the driver or the system does not give it.")
    return said
