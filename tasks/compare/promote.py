"""Pinned baselines: a name that one run holds, in its tag `baseline`, which `assay prune` and MLflow know too."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import ConfigError
from tasks.compare.names import BASELINE, NOT_ANY_MORE, holders, names_of, run_list
from tasks.record import mlflow_run
from tasks.record.tracking import spool, sync
from tasks.record.tracking.errors import TrackingError
from warehouse.build import ensure_fresh
from warehouse.parquet import read_rows, write_rows
from warehouse.parts import locked
from warehouse.retention import BASELINE_TAG

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LOCK = ".baselines.lock"
_WITHIN_S = 15.0
"""The most that MLflow may hold `promote` up; what it does not take then, `assay sync` brings."""


class Baseline(NamedTuple):
    """A name and the run that holds it."""

    name: str
    run_id: str
    experiment: str
    started_at: datetime | None


class Moved(NamedTuple):
    """What a promotion did. changed: the run did not have the name before; lost: the runs that had it."""

    changed: bool
    lost: tuple[str, ...]


def baseline_name(given: str) -> str:
    """The NAME of `baseline:NAME`. Raises ConfigError for anything else."""
    name = given.removeprefix(BASELINE)
    if name == given or not _NAME.fullmatch(name) or name.lower() == NOT_ANY_MORE:
        raise ConfigError.one(
            f"{given} is no baseline's name",
            key="--as",
            suggestion=f"write {BASELINE}NAME, of letters, digits, '.', '_' and '-', but not {BASELINE}{NOT_ANY_MORE}",
        )
    return name


def promote(home: Path, run_id: str, *, name: str) -> Moved:
    """Gives the run the name, and takes it from whichever run has it. Doing it again changes nothing.

    A kill between the two leaves the name with both, and then `baseline:NAME` is refused until this is done again: no
    comparison is ever made with a run that was meant to be replaced. Raises ConfigError for a run that did not finish.
    """
    with locked(home, name=_LOCK):
        rows = {str(row["run_id"]): row for row in run_list(home)}
        row = rows[run_id]
        if row["status"] != "finished":
            raise ConfigError.one(
                f"run {run_id} is {row['status']}: only a finished run can be a baseline",
                suggestion="`assay runs` lists the finished ones",
            )
        own = names_of(row["tags"])
        others = [str(each["run_id"]) for each in holders(list(rows.values())).get(name, []) if each is not row]
        changed = name not in own
        if changed:
            _tag(home, run_id, [*own, name])
        for other in others:
            _tag(home, other, [each for each in names_of(rows[other]["tags"]) if each != name])
        if changed or others:
            ensure_fresh(home)
    return Moved(changed=changed, lost=tuple(others))


def demote(home: Path, run_id: str, *, name: str | None) -> None:
    """Takes one name, or all, from the run. Raises ConfigError where it does not have it."""
    with locked(home, name=_LOCK):
        [row] = [row for row in run_list(home) if row["run_id"] == run_id]
        own = names_of(row["tags"])
        if not own or (name is not None and name not in own):
            held = f"it is {', '.join(BASELINE + each for each in own)}" if own else "it is none"
            raise ConfigError.one(f"run {run_id} is not {BASELINE}{name or 'NAME'}: {held}")
        _tag(home, run_id, [] if name is None else [each for each in own if each != name])
        ensure_fresh(home)


def baselines(home: Path) -> list[Baseline]:
    """The baselines, by name; a name that several runs hold comes once for each."""
    return [
        Baseline(name=name, run_id=str(row["run_id"]), experiment=str(row["name"] or ""), started_at=row["started_at"])
        for name, rows in sorted(holders(run_list(home)).items())
        for row in rows
    ]


def tell_mlflow(home: Path, run_ids: Sequence[str]) -> dict[str, str]:
    """Brings the tags of these runs to MLflow; gives why for each that waits for `assay sync` now. A run that MLflow
    never had, and which does not wait for it either (it was recorded elsewhere, say), is left alone."""
    waiting: dict[str, str] = {}
    spooled = set(spool.waiting(home))
    known = [
        run_id for run_id in run_ids if run_id in spooled or mlflow_run.known_id(home / "runs" / run_id) is not None
    ]
    for run_id in known:
        try:
            mlflow_run.prepare(home, run_id)
        except TrackingError as error:
            waiting[run_id] = str(error)
    sent = sync.sync(home, within_s=_WITHIN_S, only=[run_id for run_id in known if run_id not in waiting])
    return waiting | sent.remaining


def _tag(home: Path, run_id: str, names: Sequence[str]) -> None:
    """The run's row again, with these names in its tag, as the next revision."""
    [before] = read_rows(home, "runs", run_id, parse_json=True)
    row: dict[str, Any] = {name: value for name, value in before.items() if name not in ("run_id", "revision")}
    row["tags"] = dict(before["tags"] or {}) | {BASELINE_TAG: ",".join(names) or NOT_ANY_MORE}
    revision = int(before["revision"]) + 1
    write_rows(home=home, table="runs", run_id=run_id, rows=[row], part=f"{revision:04d}-baseline", revision=revision)
