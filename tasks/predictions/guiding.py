"""What guiding and repairing do in a recorded run, computed again from its stored requests."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.arm import REPAIR, stored_arms
from schemas.dataset import NamedDataset
from schemas.metric import Aggregate
from tasks.record.answers import last_attempts
from tasks.score.guiding import RESUMED, guiding_metrics
from tasks.score.repairing import repair_metrics
from tasks.score.stage import COLUMNS
from warehouse.parquet import read_rows

Row = Mapping[str, Any]
_COLUMNS = (*COLUMNS, "phase", "revision")
_DIED = ("died", "hung", "out_of_memory")


def guiding_again(home: Path, run_id: str, *, config: Mapping[str, Any], only: Collection[str]) -> list[Aggregate]:
    """`<dataset>.guide.*` and `<dataset>.repair.*` of these datasets, and the `guide.*` of the run, as far as the
    stored rows go: what nobody measured (times and tokens of another program's answers) gives no figure.

    config: the run's, as it is stored. only: names of its datasets. The validity of an answer is the stored one."""
    datasets = [NamedDataset.model_validate(each) for each in config.get("datasets") or []]
    guides = {each.name: each.config.guide.kind for each in datasets if each.config.guide is not None}
    arms = stored_arms(config.get("arms", []))
    if not guides or not arms:
        return []
    requests = last_attempts(home, run_id, columns=_COLUMNS)
    rows = [row for row in requests if row["phase"] in (None, "quality")]
    resumed = _was_interrupted(home, run_id, rows)
    clusters = _clusters(home, run_id)
    # Blocks and the run's own figures are those of all its datasets, whichever are scored again.
    found = guiding_metrics(rows, arms=arms, guides=guides, clusters=clusters, resumed=resumed)
    # An arm that another program calls `repair` is not made of the free one.
    if REPAIR in arms and not config.keys() & {"predictions", "imported"}:
        found += repair_metrics(rows, datasets=[*guides], clusters=clusters, resumed=resumed)
    left_out = tuple(f"{name}.{kind}." for name in guides if name not in only for kind in ("guide", "repair"))
    return [each for each in found if not (each.scope == "dataset" and each.name.startswith(left_out))]


def _clusters(home: Path, run_id: str) -> dict[str, str] | None:
    samples = read_rows(home, "samples", run_id, columns=["sample_id", "cluster"])
    return {row["sample_id"]: row["cluster"] for row in samples if row["cluster"] is not None} or None


def _was_interrupted(home: Path, run_id: str, rows: Sequence[Row]) -> bool:
    """As the run itself said of its times; of one that ended before it came to them, as its rows show: answers of more
    than one session, or an engine that ended while it answered."""
    timed = [
        row
        for row in read_rows(home, "metrics", run_id, columns=["name", "method", "scope"])
        if row["name"].startswith("timing.") and row["scope"] == "run"
    ]
    if timed:
        return any(row["method"] == RESUMED for row in timed)
    starts = read_rows(home, "engine_starts", run_id, columns=["ended_why", "ended_while"])
    restarted = any(row["ended_why"] in _DIED and row["ended_while"] == "answering" for row in starts)
    return restarted or len({row["revision"] for row in rows}) > 1
