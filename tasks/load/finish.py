"""What is made of all cells of a run once they are measured: their metrics, those over repeats, what disturbed them."""

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.arm import compared_arms
from schemas.benchmark import Benchmark
from schemas.built import BuiltEngine
from schemas.metric import Aggregate
from tasks.compare.read import read_recorded
from tasks.compare.speed import compare_speed, speed_rows
from tasks.load.cell import CellRun
from tasks.load.repeats import over_repeats
from tasks.load.watched import devices_of, is_served, watched
from tasks.record.rows import metric_rows
from tasks.session import Session
from warehouse.parquet import read_rows


@dataclass(kw_only=True)
class Found:
    """What is kept of the cells until then. metrics: by cell; abandoned: cells during which the engine died; whole:
    whether all were measured that were to be."""

    runs: list[CellRun] = field(default_factory=list)
    metrics: dict[str, list[Aggregate]] = field(default_factory=dict)
    abandoned: list[str] = field(default_factory=list)
    knees: list[Aggregate] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    whole: bool = False

    @property
    def good(self) -> list[CellRun]:
        """Those that numbers are made of."""
        return [run for run in self.runs if run.cell_id not in self.abandoned]


def finish(
    session: Session,
    found: Found,
    *,
    benchmark: Benchmark,
    built: BuiltEngine,
    arms: Sequence[str],
    row: Callable[[CellRun], dict[str, Any]],
) -> None:
    """Writes the metrics of each cell; where all were measured, those over repeats and the arms against each other too.
    row: a cell as the table `cells` has it."""
    run, store, good = session.run, session.store, found.good
    seen = watched(
        run.home,
        run.run_id,
        cells=[row(each) for each in good],
        benchmark=benchmark,
        device=built.device,
        devices=devices_of(built),
        served=is_served(built),
    )
    for each in good:
        found.metrics[each.cell_id] += seen.metrics[each.cell_id]
        each.disturbed += seen.disturbed[each.cell_id]
    found.warnings += _of_disturbed(good)
    for each in good:
        _share_energy(session, each.cell_id, seen.energy_j)
    store.write("cells", [row(each) for each in good], later=1)
    store.write("metrics", metric_rows(metric for each in good for metric in found.metrics[each.cell_id]))
    if found.whole:
        store.write("metrics", metric_rows([*_pooled(found), *found.knees]))
        _compare_arms(session, arms)


def is_measured(session: Session) -> bool:
    """Whether an earlier session of this run measured everything: only then are there metrics over repeats."""
    home, run_id = session.run.home, session.run.run_id
    cells = read_rows(home, "cells", run_id, columns=["cell_id", "point_id"])
    points = {row["point_id"] for row in cells if row["point_id"] is not None}
    return any(row["cell_id"] in points for row in read_rows(home, "metrics", run_id, columns=["name", "cell_id"]))


def leave_behind(session: Session) -> None:
    """Takes what an earlier session of this run measured, and did not end, out of its points."""
    words = "left behind: the run was interrupted, and measured anew"
    rows = read_rows(session.run.home, "cells", session.run.run_id, parse_json=True)
    session.store.write(
        "cells",
        [
            {key: value for key, value in row.items() if key not in ("run_id", "revision")}
            | {"kind": "abandoned", "point_id": None, "disturbed": [*(row["disturbed"] or []), words]}
            for row in rows
            if row["kind"] != "quality"
        ],
    )


def _pooled(found: Found) -> Iterator[Aggregate]:
    by_point: dict[str, list[CellRun]] = {}
    for run in found.good:
        by_point.setdefault(run.point.point_id, []).append(run)
    for point_id, repeats in by_point.items():
        ordered = sorted(repeats, key=lambda run: run.repeat)
        yield from over_repeats([found.metrics[run.cell_id] for run in ordered], point_id=point_id)


def _share_energy(session: Session, cell_id: str, energy_j: Mapping[str, float]) -> None:
    """Writes each request's share of the energy beside it, where any was measured: a cell at a time, since a row has
    the time of every token."""
    if not energy_j:
        return
    rows = read_rows(session.run.home, "requests", session.run.run_id, parse_json=True, where=("cell_id", cell_id))
    session.store.write(
        "requests",
        [
            {key: value for key, value in row.items() if key not in ("run_id", "revision")}
            | {"energy_allocated_j": energy_j[row["request_id"]]}
            for row in rows
            if row["request_id"] in energy_j
        ],
        later=1,
    )


def _compare_arms(session: Session, arms: Sequence[str]) -> None:
    """Holds each arm against the one that it is compared with, point by point."""
    run = session.run
    pairs = [pair for pair in compared_arms(run.experiment.arms) if all(arm in arms for arm in pair)]
    if not pairs:
        return
    own = read_recorded(run.home, run.run_id)
    more = {"baseline_run_id": run.run_id, "compared_at": datetime.datetime.now(datetime.UTC)}
    found = compare_speed(candidate=own, baseline=own, arms=pairs)
    session.store.write("comparisons", [row | more for row in speed_rows(found.results)])


def _of_disturbed(runs: Sequence[CellRun]) -> list[str]:
    """A line for all that disturbed cells, with how many."""
    kinds = Counter(word.split()[0] for run in runs for word in set(run.disturbed))
    if not kinds:
        return []
    listed = ", ".join(f"{kind} ({n} of {len(runs)} cells)" for kind, n in kinds.most_common())
    return [f"measured cells were disturbed: {listed}; `disturbed` in the table `cells` says by how much"]
