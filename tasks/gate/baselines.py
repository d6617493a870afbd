"""Which run a gate's `against` is: the last green one, a pinned one, or one by its id."""

from pathlib import Path
from typing import NamedTuple

from schemas.errors import ConfigError
from schemas.gate import BASELINE, LAST_GREEN
from tasks.compare.names import find_run
from warehouse.parquet import read_rows
from warehouse.query import query
from warehouse.schema.table import literal


class Scope(NamedTuple):
    """What `last_green` looks for: an earlier run of this experiment and model that has this metric in this arm.

    before: the run that is judged; dataset: whose rows should be the same, None for a group or a measured load;
    cell_id: the point of a measured load."""

    before: str
    experiment: str
    model: str | None
    metric: str
    arm: str
    dataset: str | None
    cell_id: str | None = None


class Found(NamedTuple):
    """The run, or why there is none. wrong: there should be one; not: there is none yet. cell_id: as in Scope."""

    run_id: str | None
    reason: str | None
    wrong: bool = False
    cell_id: str | None = None


def resolve(home: Path, against: str, *, scope: Scope) -> Found:
    """The run that a gate is held against. Raises ConfigError for a pinned run or an id that is not there."""
    if against == LAST_GREEN:
        run_id = last_green(home, scope=scope)
        if run_id is None:
            where = scope.cell_id or scope.arm
            return Found(None, f"no earlier green run of {scope.experiment} has {scope.metric} ({where}) yet")
        return Found(run_id, None)
    run_id = find_run(home, against).run_id
    if run_id == scope.before:
        return Found(None, f"{against} is this run itself")  # it was pinned since, and its gates are judged again
    return Found(run_id, None)


def last_green(home: Path, *, scope: Scope) -> str | None:
    """The newest earlier green run in the scope, the newest with the very same rows of the dataset before any other:
    so a trial with `--limit` does not become what full runs are held against. Of a measured load the newest on the same
    devices before any other: speed on two is not compared. None where there is none.

    Green is a finished run each of whose gates passed, or was skipped as there was nothing to hold it against. A run
    without gates is green; one of `assay noise` never is, nor a cell of a sweep, an ablation or a tuning, nor one whose
    gates were not all judged, or with an undecided or refused one."""
    same_rows = ""
    if scope.dataset is not None:
        dataset = literal(scope.dataset)
        same_rows = f"""coalesce((SELECT any_value(d.fingerprint) FROM datasets AS d
        WHERE d.run_id = r.run_id AND d.dataset = {dataset}) = (SELECT any_value(d.fingerprint) FROM datasets AS d
        WHERE d.run_id = {literal(scope.before)} AND d.dataset = {dataset}), FALSE) DESC,"""  # noqa: S608 - quoted
    same_devices = ""
    if scope.cell_id is not None:
        of_run = """(SELECT list_sort(list(DISTINCT (e.device, e.device_count))) FROM engines AS e
        WHERE e.run_id = {} AND e.device IS NOT NULL)"""
        before = literal(scope.before)
        same_devices = f"coalesce({of_run.format('r.run_id')} = {of_run.format(before)}, FALSE) DESC,"
    point = "" if scope.cell_id is None else f"AND m.cell_id = {literal(scope.cell_id)}"
    model = "IS NULL" if scope.model is None else f"= {literal(scope.model)}"
    sql = f"""
SELECT r.run_id
FROM runs AS r
WHERE r.name = {literal(scope.experiment)} AND r.status = 'finished' AND r.run_id < {literal(scope.before)}
    AND (r.config ->> '$.model.name') {model}
    AND (r.tags ->> '$.noise') IS NULL AND r.parent_run_id IS NULL
    AND EXISTS (
        SELECT 1 FROM metrics AS m
        WHERE m.run_id = r.run_id AND m.name = {literal(scope.metric)} AND m.arm = {literal(scope.arm)}
            AND m.value IS NOT NULL {point}
    )
    AND NOT EXISTS (
        SELECT 1 FROM gates AS g
        WHERE g.run_id = r.run_id AND (g.verdict IS NULL OR g.verdict NOT IN ('passed', 'skipped'))
    )
    AND coalesce(json_array_length(r.config, '$.gates'), 0) <= (
        SELECT count(DISTINCT g.gate) FROM gates AS g WHERE g.run_id = r.run_id
    )
ORDER BY {same_rows} {same_devices} r.run_id DESC
LIMIT 1"""  # noqa: S608 - quoted
    rows = query(home=home, sql=sql).rows
    return str(rows[0][0]) if rows else None


def check_pinned(home: Path, against: str, *, metric: str, arm: str, cell_id: str | None = None) -> str | None:
    """What is wrong with a pinned run or an id, before anything starts; None where it can be used, or is `last_green`.
    cell_id: the point of a measured load.

    Raises ConfigError for a name that no run has, with how to make one."""
    if against == LAST_GREEN:
        return None
    run_id = find_run(home, against).run_id
    [run] = read_rows(home, "runs", run_id, columns=["status", "revision"])
    if run["status"] != "finished":
        return f"{against} is {run['status']}: only a finished run can be held against"
    rows = read_rows(home, "metrics", run_id, columns=["scope", "name", "arm", "cell_id", "revision"])
    there = [row for row in rows if row["name"] == metric and row["arm"] == arm]
    if not any(cell_id in (None, row["cell_id"]) for row in there):
        pinned = f" (run {run_id})" if against.startswith(BASELINE) else ""
        where = f"in its arm {arm}" if cell_id is None else f"at {cell_id}"
        return f"{against}{pinned} has no {metric} {where}"
    return None


def as_config_error(error: ConfigError) -> str:
    """Its message, on one line, for a gate's reason."""
    return " ".join(str(error).split())
