"""A run of another harness, as the tables take it."""

import datetime
from dataclasses import dataclass, field
from typing import Any

from schemas.metric import Aggregate
from schemas.run import RunStatus

Row = dict[str, Any]


@dataclass(kw_only=True)
class Imported:
    """A run as the tables take it. run_id is made of the time and the content, so that one file is one run. status and
    error: how the other program's run ended. details: what no table has a column for, gzipped JSON Lines, which become
    `details.jsonl.gz` in the run's folder."""

    run_id: str
    started_at: datetime.datetime
    ended_at: datetime.datetime
    config: Row
    packages: dict[str, str]
    tables: dict[str, list[Row]] = field(default_factory=dict)
    metrics: list[Aggregate] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    status: RunStatus = "finished"
    error: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    details: bytes | None = None
