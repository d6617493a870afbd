"""What a run has been answered so far."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warehouse.parquet import read_rows


def last_attempts(home: Path, run_id: str, *, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Each request's last attempt in the quality phase, with these columns (and request_id, attempt)."""
    wanted = list(dict.fromkeys([*columns, "request_id", "attempt", "revision", "phase"]))
    last: dict[str, dict[str, Any]] = {}
    for row in read_rows(home, "requests", run_id, columns=wanted):
        if row["phase"] not in ("quality", None):
            continue
        known = last.get(row["request_id"])
        if known is None or row["attempt"] > known["attempt"]:
            last[row["request_id"]] = row
    return list(last.values())
