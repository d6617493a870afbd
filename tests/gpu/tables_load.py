"""What was measured of load, as tables: power and energy by requests in flight, and the search for the knee."""

from collections.abc import Sequence
from typing import Any

from tests.gpu.tables_parts import Row, shown, table

_ENERGY = (
    ("tokens/s", "output_tokens_per_s"),
    ("ttft p50 ms", "ttft_ms.p50"),
    ("tpot p50 ms", "tpot_ms.p50"),
    ("mean W", "power_w"),
    ("counter J", "energy_counter_j"),
    ("integral J", "energy_integral_j"),
    ("integral / counter", "energy_ratio"),
    ("J a token", "joules_per_output_token"),
)


def load_of_a_service(rows: Sequence[Row]) -> str:
    """Of the newest run of each arm."""
    newest = {row["arm"]: row for row in rows if row.get("points")}
    parts = []
    if "energy" in newest:
        points = _points(newest["energy"])
        order = sorted((name for name in points if "closed" in name), key=lambda name: int(name.rpartition("-")[2]))
        lines = [(name.rpartition("-")[2], *(_figure(points[name], figure) for _, figure in _ENERGY)) for name in order]
        parts.append(table(("in flight", *(head for head, _ in _ENERGY)), lines))
    if "knee" in newest:
        row = newest["knee"]
        [details] = [each["details"] for each in row["points"] if each["name"] == "perf.knee_requests_per_s"]
        lines = [
            (str(number), f"{probe['rate']:.1f}", f"{probe['asked']:,}", f"{probe['met'] / probe['asked']:.3f}")
            for number, probe in enumerate(details["probes"], 1)
        ]
        parts.append(table(("probe", "requests/s", "asked", "kept the SLO"), lines))
        found = next(each["value"] for each in row["points"] if each["name"] == "perf.knee_requests_per_s")
        decided = "decided" if details["decided"] else "not decided"
        parts.append(f"Knee: {found:.1f} requests/s, {details['above']:.1f} break it; {decided}.")
    return "\n\n".join(parts)


def _points(row: Row) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for each in row["points"]:
        found.setdefault(each["point"], {})[each["name"].removeprefix("perf.")] = each["value"]
    return found


def _figure(point: dict[str, Any], name: str) -> str:
    return shown(point.get(name), digits=4)
