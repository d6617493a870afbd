"""Nights of one experiment that were never run: as few rows as gates read, with metrics made of the scores."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.experiment import Group
from schemas.gate import Gate
from tasks.gate.evaluate import Judged, evaluate, judged_run
from tasks.gate.keep import save_evaluation
from tasks.gate.model import Evaluation
from tasks.score.stats.wilson import rate_interval
from tests.unit.compare.two_runs import FIRST, SECOND, THIRD, Made, Values, binary, config, write
from warehouse.parquet import write_rows

__all__ = ["ACC", "FIRST", "SECOND", "THIRD", "Made", "binary", "gate", "judge", "judged", "night"]

ACC = ("d", "acc", "free")


def gate(**changes: Any) -> Gate:
    """A gate on `d.acc`, not worse than the last green run and a pinned one."""
    base: dict[str, Any] = {"metric": "d.acc", "rule": "not_worse", "margin": 0.02, "against": ["last_green"]}
    return Gate(**base | changes)


def night(
    home: Path,
    run_id: str,
    values: Mapping[tuple[str, str, str], Values],
    *,
    gates: Sequence[Gate] = (),
    model: str = "tiny",
    fingerprint: str | None = None,
    **made: Any,
) -> str:
    """One finished run, with its gates in its config; they are not judged yet."""
    own = config(model={"name": model}, gates=[each.model_dump(mode="json") for each in gates])
    aggregates = [_aggregate(key, scored) for key, scored in values.items()]
    write(home, Made(run_id=run_id, values=values, config=own, aggregates=aggregates, **made))
    if fingerprint is not None:
        rows = [{"dataset": dataset, "fingerprint": fingerprint} for dataset in {key[0] for key in values}]
        write_rows(home=home, table="datasets", run_id=run_id, rows=rows, part="rows", revision=2)
    return run_id


def judged(
    home: Path, run_id: str, *, groups: Mapping[str, Group] | None = None, datasets: Sequence[str] = ("d",)
) -> Judged:
    return judged_run(home, run_id, groups=groups or {}, datasets=datasets)


def judge(home: Path, run_id: str, *gates: Gate, save: bool = True) -> Evaluation:
    """Judges the gates of a run with the dataset `d`, and keeps what came of it."""
    found = evaluate(judged(home, run_id), gates)
    if save:
        save_evaluation(home, found)
    return found


def _aggregate(key: tuple[str, str, str], values: Values) -> dict[str, Any]:
    dataset, metric, arm = key
    known = [float(value) for value in values.values() if isinstance(value, int | float)]
    estimate = rate_interval(known) if set(known) <= {0.0, 1.0} else None
    return {
        "scope": "dataset",
        "name": f"{dataset}.{metric}",
        "arm": arm,
        "value": statistics.fmean(known) if known else None,
        "lo": None if estimate is None else estimate.lo,
        "hi": None if estimate is None else estimate.hi,
        "unit": "share",
        "direction": "higher",
        "n": len(known),
        "n_failed": len(values) - len(known),
        "method": "wilson",
    }
